"""litellm keeps connections open between calls; each test closes its own, as a run does at its end."""

import pytest

from lhaw_record.runners.models.litellm_library import close_clients


@pytest.fixture(autouse=True)
async def _closed(anyio_backend):
    """Close litellm's clients before the event loop of the test ends."""
    yield
    await close_clients()
