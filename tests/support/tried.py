"""What passed on a bare machine is not run again beside Docker and browsers (``-p tests.support.tried``, ``.ci/run``).

``LHAW_RECORD_PASSED`` names the file to which tests that pass are written, ``LHAW_RECORD_TRIED`` one of a run before,
whose tests are left out. Those that look farther outside of ``make test`` are run all the same.
"""

import os
from pathlib import Path

import pytest

PASSED, TRIED = os.environ.get("LHAW_RECORD_PASSED"), os.environ.get("LHAW_RECORD_TRIED")


def looks_farther(item: pytest.Function) -> bool:
    """Return whether a test does more under its name when it has more time (``tests/support/depth.py``)."""
    return getattr(item.obj, "is_hypothesis_test", False) or hasattr(item.module, "IS_QUICK")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Leave out what passed before."""
    if TRIED is None:
        return
    passed = frozenset(Path(TRIED).read_text(encoding="utf-8").splitlines())
    tried = [item for item in items if item.nodeid in passed and not looks_farther(item)]
    left = set(tried)
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=tried)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what passed; only the process that gathers the reports of all workers does."""
    if PASSED is not None and "PYTEST_XDIST_WORKER" not in os.environ and report.when == "call" and report.passed:
        with Path(PASSED).open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many were left out."""
    if TRIED is not None:
        count = len(Path(TRIED).read_text(encoding="utf-8").splitlines())
        terminalreporter.write_line(f"{count} tests passed before; of these only those were run that look farther now")
