"""The benchmark itself: it runs, and it judges as it says."""

import io
import json
import subprocess
import sys

import pytest

from tests.bench import figures
from tests.bench.__main__ import main
from tests.bench.cold import TIMED
from tests.bench.figures import Limit, figure


@pytest.mark.thorough
def test_a_quick_run_measures_everything_and_leaves_nothing_behind(tmp_path):
    """Every figure with a budget is in the table; the directory is empty afterwards. No time is asserted."""
    out = io.StringIO()
    assert main(["--quick", "--directory", str(tmp_path)], out) == 0
    budgets = (
        "recorder CPU",
        "durable events",
        "acknowledgement p99",
        "longest block",
        "resident memory",
        "end to end",
        "all tables",
    )
    for name in (*budgets, "sealed bytes"):
        assert f"| {name}" in out.getvalue()
    assert list(tmp_path.iterdir()) == []


def test_a_figure_is_judged_by_value_and_by_ratio():
    """Medians of values, of baselines and of the ratios run by run; every limit must hold."""
    limits = [Limit(number=0.5, of="ratio", is_lowest=True), Limit(number=40, is_lowest=True, unit="/s")]
    good = figure("speed", "/s", [50.0, 60.0, 40.0], baselines=[100.0, 60.0, 50.0], baseline_name="b", limits=limits)
    assert (good.value, good.baseline, good.ratio, good.is_within) == (50.0, 60.0, 0.8, True)
    assert good.budget == "≥ 0.5 x baseline and ≥ 40 /s"
    slow = figure("speed", "/s", [30.0], baselines=[40.0], limits=limits)
    assert (slow.ratio, slow.is_within) == (0.75, False)


def test_a_section_is_written_between_its_marks(tmp_path):
    """The section before is replaced, what stands around it stays, and a page without the marks is refused."""
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- measured: speed -->\nold\n<!-- end -->\nAfter.\n")
    figures.write(page, "speed", figures.lines([figure("speed", "/s", [50.0])]))
    text = page.read_text()
    assert text.startswith("Before.\n<!-- measured: speed -->\n")
    assert text.endswith("<!-- end -->\nAfter.\n")
    assert "| speed | 50 /s" in text
    assert "old" not in text
    with pytest.raises(ValueError, match="no place for the section size"):
        figures.write(page, "size", [])


def test_programs_are_measured_with_their_children(tmp_path):
    """The memory of a child of the program is seen, the starter's is not, and the exit code is passed on."""
    result = tmp_path / "taken.json"
    child = "x = b'x' * (96 << 20)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); sys.exit(7)"
    for code, least, most in ((program, 96 << 20, 1 << 30), ("import sys; sys.exit(7)", 1 << 20, 64 << 20)):
        command = [sys.executable, str(TIMED), str(result), sys.executable, "-c", code]
        assert subprocess.run(command, check=False).returncode == 7
        assert least < json.loads(result.read_text())["peak_bytes"] < most
