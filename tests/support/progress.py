"""A line for each part of the suite and where it is, instead of dots (``-p tests.support.progress``)."""

from collections import Counter
from pathlib import PurePosixPath
from time import monotonic

import pytest

BEAT_S = 15.0
"""Nobody waits longer without a line, unless a single test takes longer."""


def part_of(node_id: str) -> str:
    """Return the part that a test belongs to: its folder below ``tests``, two levels at most."""
    folders = PurePosixPath(node_id.partition("::")[0]).parts[1:-1]
    return "/".join(folders[:2]) or "tests"


class Progress:
    """Counts what is through; prints each failure at once and each part at its end."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._began_s = self._last_s = monotonic()
        self._left: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()

    def expect(self, node_ids: list[str]) -> None:
        """Take what will be run; each worker tells the same."""
        self._all = Counter(map(part_of, node_ids))
        self._left = self._all.copy()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tests in one process."""
        self.expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Tests in several."""
        if not self._all:
            self.expect(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No letters; pytest counts all the same."""
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        if report.skipped:
            return "skipped", "", ""
        return ("passed" if report.when == "call" else "", "", "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a failure at once."""
        if report.failed:
            self._reporter.write_line(f"FAILED {report.nodeid}", red=True)
            self._reporter.flush()
        self._skipped[part_of(report.nodeid)] += report.skipped

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Print a part at its end, and now and then where it is."""
        part = part_of(nodeid)
        self._left[part] -= 1
        if self._left[part] == 0:
            skipped = f", {self._skipped[part]} skipped" if self._skipped[part] else ""
            self._tell(f"{part}: done, {self._all[part]} tests{skipped}")
        elif monotonic() - self._last_s > BEAT_S:
            self._tell(f"{part}: {PurePosixPath(nodeid.partition('::')[0]).name} ...")

    def _tell(self, where: str) -> None:
        self._last_s = monotonic()
        share = (self._all.total() - self._left.total()) * 100 // self._all.total()
        self._reporter.write_line(f"[{share:3d}%] {self._last_s - self._began_s:4.0f} s  {where}")
        self._reporter.flush()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Only the process that prints has it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput") and config.get_verbosity() <= 0:
        config.pluginmanager.register(Progress(reporter))
