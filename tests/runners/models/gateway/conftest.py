"""litellm keeps connections open between calls; tests that use it close their own."""

from tests.runners.models.conftest import closed_clients

__all__ = ["closed_clients"]
