"""What the tests of the views share."""

import pytest

from lhaw_record.analytics.views.store import connect
from tests.analytics.views.test_views import busy_store


@pytest.fixture(scope="session")
def connection():
    """A connection to the busy store, to be read only: one for all tests of a worker."""
    opened = connect(busy_store().snapshot())
    yield opened
    opened.close()
