"""The fixture that closes litellm's connections."""

from tests.runners.models.conftest import closed_clients

__all__ = ["closed_clients"]
