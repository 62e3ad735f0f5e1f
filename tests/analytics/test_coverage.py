"""docs/coverage.md holds what the intervals do: some cells are computed again."""

import re

import pytest

from tests.analytics.coverage import CHANCES, GOOD, PAGE, SIZES, bootstrap_coverage, wilson_coverage

ROW = re.compile(r"^\| (\d+) \| ([\d.]+) \| \**([\d.]+)\** \| \**([\d.]+)\** \| \**([\d.]+)\** \|$", re.MULTILINE)


def printed():
    """The cells of the page: sizes and chances to the three coverages."""
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {(int(size), float(chance)): tuple(map(float, shares)) for size, chance, *shares in rows}


def test_the_page_has_every_cell_and_marks_the_bad_ones():
    """Nine cells; exactly those below 0.93 are bold."""
    assert set(printed()) == {(size, chance) for size in SIZES for chance in CHANCES}
    bold = {float(each) for each in re.findall(r"\*\*([\d.]+)\*\*", PAGE.read_text(encoding="utf-8"))}
    assert bold == {share for shares in printed().values() for share in shares if share < GOOD}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chance", CHANCES)
def test_wilson_covers_as_printed(size, chance):
    """The exact coverage is the printed one."""
    assert wilson_coverage(size, chance) == pytest.approx(printed()[size, chance][0], abs=6e-4)


@pytest.mark.parametrize(("method", "place"), [("percentile", 1), ("bca", 2)])
@pytest.mark.parametrize(("size", "chance"), [(12, 0.05), (30, 0.5)])
def test_the_bootstrap_covers_about_as_printed(method, place, size, chance):
    """A smaller simulation gives the printed coverage within four standard errors."""
    runs, expected = 200, printed()[size, chance][place]
    error = (expected * (1 - expected) / runs) ** 0.5
    assert bootstrap_coverage(size, chance, method, runs) == pytest.approx(expected, abs=4 * error)
