"""What every test shares."""

import pytest


@pytest.fixture
def anyio_backend():
    """Everything runs under asyncio: litellm knows no other loop."""
    return "asyncio"
