"""litellm keeps connections open between calls; each test closes its own, as a run does at its end."""

import pytest

from lhaw_record.runners.models.endpoints.door import Door
from lhaw_record.runners.models.litellm_library import close_clients
from tests.support.doors import Unhurried


@pytest.fixture
async def closed_clients(anyio_backend):
    """Close litellm's clients before the event loop of the test ends."""
    yield
    await close_clients()


@pytest.fixture
def new_doors(monkeypatch):
    """Each call has a door of its own, so that failures in a row close none."""
    monkeypatch.setattr(
        "lhaw_record.runners.models.litellm_model.door_of", lambda name, *_: Door(name, pace=Unhurried())
    )
