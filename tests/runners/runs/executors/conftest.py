"""A Ray cluster on this machine, and runs on it. Without Ray its tests are skipped, and in CI left out."""

import importlib.util

import pytest

from tests.cli.conftest import reference, reference_tables
from tests.conftest import IS_CI
from tests.runners.runs.executors.site import Cluster, Site
from tests.support.needs import require

__all__ = ["reference", "reference_tables"]
HAS_RAY = importlib.util.find_spec("ray") is not None

collect_ignore_glob = ["test_ray_*.py"] if IS_CI and not HAS_RAY else []


@pytest.fixture(scope="session")
def ray_cluster():
    """A cluster without nodes that can work."""
    require("ray")
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def site(ray_cluster, tmp_path):
    """A place for one test; its nodes end with it."""
    made = Site(ray_cluster, tmp_path)
    yield made
    made.close()
