"""What every test shares."""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.depth import IS_DEEP

IS_CI = bool(os.environ.get("LHAW_RECORD_CI"))

# In CI the laws meet the same examples every time: a rare one must not hold up a change that has nothing to do with it.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, database=None, **_PATIENT)
settings.register_profile("deep", **_PATIENT)
if IS_DEEP or IS_CI:
    settings.load_profile("deep" if IS_DEEP else "ci")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Files with slow tests come first: the worker that got one at the end would work alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture
def anyio_backend():
    """Everything runs under asyncio: litellm knows no other loop."""
    return "asyncio"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """In CI nothing may be skipped: a test that is meant to run there and does not is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if IS_CI and skipped:
        reporter.write_line(f"{len(skipped)} tests were skipped, and CI must run all of them", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
