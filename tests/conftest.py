"""What every test shares."""

import gc
import importlib
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.depth import IS_DEEP, at_depth
from tests.support.needs import may_be_missing_in_ci, require, skips_told

IS_CI = bool(os.environ.get("LHAW_RECORD_CI"))
_LEFT_OUT = pytest.StashKey[int]()

# No law has a deadline: a busy machine must not fail it. But for deep runs laws meet the same examples every time: a
# rare one must not hold up a change that has nothing to do with it.
_PATIENT = {"deadline": None, "max_examples": at_depth(80, 500), "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("usual", derandomize=True, database=None, **_PATIENT)
settings.register_profile("deep", **_PATIENT)
settings.load_profile("deep" if IS_DEEP else "usual")


def pytest_configure(config):
    """The number of tests that ``-m`` leaves out, here or in the workers together."""
    config.stash[_LEFT_OUT] = 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One worker more than processors, four with containers: while one waits for a limit to strike, others work."""
    return (os.cpu_count() or 1) + (4 if IS_CI else 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect without looking for garbage, of which there is none yet: that took a fifth of the time.

    What is collected stays to the end, so no later search for garbage looks at it again.
    """
    gc.disable()
    try:
        _import_own_share_first(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Leave most cases of sampled tests to the thorough suite; put files with slow tests first.

    The worker that got a slow one at the end would work alone.
    """
    cases = Counter()
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            name = item.nodeid.partition("[")[0]
            if cases[name] % mark.args[0]:
                item.add_marker("thorough")
            cases[name] += 1
    yield
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def _import_own_share_first(config):
    """Begin to import the tests elsewhere than the other workers do, for each imports all of them.

    In a fresh clone, the first to import a test module compiles it, for 10 s of processor time in all. So each compiles
    a share, and finds the others compiled.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    paths = sorted(Path(__file__).parent.rglob("test_*.py"))
    first = len(paths) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in paths[first:] + paths[:first]:
        with suppress(Exception, pytest.skip.Exception):  # collecting it will tell
            importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_deselected(items):
    """Count what is left to ``make test-all``."""
    for item in items:
        is_left = item.config.option.markexpr and item.get_closest_marker("thorough")
        item.config.stash[_LEFT_OUT] += bool(is_left)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a test that needs what this machine lacks, before its fixtures are made."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)


@pytest.fixture(scope="session")
def anyio_backend():
    """Everything runs under asyncio: litellm knows no other loop."""
    return "asyncio"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """In CI nothing may be skipped: a test that is meant to run there and does not is a failure."""
    gc.unfreeze()  # else extensions say at the end that they leak
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[_LEFT_OUT]
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skips = reporter.stats.get("skipped", []) if reporter else []
    skipped = [report for report in skips if not may_be_missing_in_ci(report)]
    if IS_CI and skipped:
        reporter.write_line(f"{len(skipped)} tests were skipped, and CI must run all of them", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Every worker collects everything, so each says the same number."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[_LEFT_OUT] = max(node.config.stash[_LEFT_OUT], output.get("left_out", 0))


def pytest_terminal_summary(terminalreporter):
    """Print a line for each kind of thing that could not be tried here, with the command that would let it."""
    for line in skips_told(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line, yellow=True)
    if left_out := terminalreporter.config.stash[_LEFT_OUT]:
        terminalreporter.write_line(f"{left_out} tests are left to `make test-all`")
