"""What the tests of tac share: the images, made once."""

import pytest

from tests.runners.environments.benchmarks.tac.images import made_images


@pytest.fixture(scope="session")
def images():
    """The names of the images by what they are; only for tests that need an engine."""
    return dict(zip(("task", "owncloud", "company"), made_images(), strict=True))
