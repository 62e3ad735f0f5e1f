"""The measurement against size: it runs, its figures are whole, its chart shows them, and memory stays small."""

import xml.etree.ElementTree as ET

import msgspec
import pytest

from tests.bench import scale
from tests.bench.cold import ProgramFailed, run
from tests.bench.scale_chart import COLOURS, draw
from tests.bench.scale_figures import BUDGETS, OPERATIONS, Measured, Scale, Size, verdict
from tests.bench.scale_report import growth, markdown
from tests.bench.stores import kept_store

ANY_TIMES = {"runs": 3, "lowest_s": 0.0, "highest_s": 99.0, "load": 0.1, "others_cpus": 0.0, "measured_at": "now"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A quick run: the directory of its report."""
    kept = tmp_path_factory.mktemp("kept")
    assert scale.main(["--quick", "--kept", str(kept)]) == 0
    return kept / "results"


@pytest.mark.thorough
def test_every_operation_is_measured_at_every_size(measured):
    """Each size has one figure for each operation, from real programs on a real store. No time is asserted."""
    found = msgspec.json.decode((measured / "scale.json").read_bytes(), type=Scale)
    assert [size.wanted_events for size in found.sizes] == list(scale.QUICK_SIZES)
    for size in found.sizes:
        assert 0.5 < size.events / size.wanted_events < 2
        assert 20 < size.events / size.trials < 100
        assert {one.operation for one in size.measured} == set(OPERATIONS)
        assert all(0 < one.lowest_s <= one.wall_s <= one.highest_s for one in size.measured)
        assert all(one.cpu_s > 0 for one in size.measured if one.peak_bytes is not None)


@pytest.mark.thorough
def test_memory_of_the_tables_grows_less_than_the_store(measured):
    """Ten times the events take less than twice the memory, and a small store takes less than half a GiB."""
    small, large = msgspec.json.decode((measured / "scale.json").read_bytes(), type=Scale).sizes
    peaks = [size.find("tables", "dropped").peak_bytes for size in (small, large)]
    assert large.events > 8 * small.events
    assert peaks[1] < min(2 * peaks[0], 1 << 29)


@pytest.mark.thorough
def test_the_report_and_the_chart_are_written(measured):
    """The tables have a row for each size; the chart is an SVG whose words are text, and a PNG."""
    lines = (measured / "scale.md").read_text().splitlines()
    for size in msgspec.json.decode((measured / "scale.json").read_bytes(), type=Scale).sizes:
        assert sum(line.startswith("|") and f" {size.events:,} |" in line for line in lines) == 5
    texts = _texts(measured / "scale.svg")
    assert texts.issuperset(OPERATIONS[name] for name in COLOURS)
    assert (measured / "scale.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_measured_again_replaces_the_same_figure_only(tmp_path):
    """Other operations and other sizes stay as they were, the sizes in rising order; another store starts afresh."""
    scale.add(tmp_path, _size(500_000, tables_s=2.0))
    scale.add(tmp_path, _size(10_000, tables_s=1.0))
    again = _size(500_000, tables_s=1.5)
    scale.add(tmp_path, msgspec.structs.replace(again, measured=again.measured[:1]))
    small, large = msgspec.json.decode((tmp_path / "scale.json").read_bytes(), type=Scale).sizes
    assert (small.wanted_events, large.wanted_events) == (10_000, 500_000)
    assert large.find("tables", "dropped").wall_s == 1.5
    assert large.find("mean", "dropped").wall_s == 2.0
    assert len(large.measured) == len(again.measured)
    scale.add(tmp_path, msgspec.structs.replace(again, store_bytes=1, measured=again.measured[:1]))
    assert len(msgspec.json.decode((tmp_path / "scale.json").read_bytes(), type=Scale).sizes[1].measured) == 1


def test_a_budget_is_judged_at_its_own_size():
    """By time and by memory; another size says nothing; a budget for any size holds at each."""
    at_10_000, at_500_000, at_10_million, one_trial = BUDGETS
    assert verdict(at_10_000, _size(10_000, tables_s=0.9)) is True
    assert verdict(at_500_000, _size(500_000, tables_s=1.4)) is True
    assert verdict(at_500_000, _size(500_000, tables_s=1.6)) is False
    assert verdict(at_500_000, _size(500_000, tables_s=1, peak_bytes=2 << 30)) is False
    assert verdict(at_500_000, _size(1_000_000, tables_s=9)) is None
    assert verdict(at_10_million, _size(10_000_000, tables_s=9, peak_bytes=2 << 30)) is True
    assert verdict(one_trial, _size(10_000, tables_s=9, fetch_s=0.06)) is False
    report = markdown(Scale(machine="a machine", sizes=(_size(500_000, tables_s=1.6, fetch_s=0.04),)))
    assert "all tables, at most 1.5 s and 1 GiB at 500,000 events: OVER" in report
    assert "one trial, at most 50 ms at 500,000 events: within" in report


def test_growth_is_a_slope_of_logarithms():
    """A hundred times the events at ten times the time: an exponent of a half."""
    sizes = (_size(10_000, tables_s=1.0), _size(1_000_000, tables_s=10.0))
    *_, small, large = growth(Scale(machine="", sizes=sizes))
    assert [cell.strip() for cell in small.strip("|").split("|")] == ["10,000", *["1 s"] * 5, "10 ms", "256 MiB"]
    assert [cell.strip() for cell in large.strip("|").split("|")][1:7] == [*["10 s (0.50)"] * 5, "10 ms (0.00)"]


@pytest.mark.thorough
def test_the_same_figures_give_the_same_chart(tmp_path):
    """The SVG does not change when it is drawn again, so that a change of it is a change of figures."""
    drawn = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        draw(Scale(machine="", sizes=(_size(10_000, tables_s=1), _size(500_000, tables_s=2))), tmp_path / str(number))
        drawn.append((tmp_path / str(number) / "scale.svg").read_bytes())
    assert drawn[0] == drawn[1]
    assert _texts(tmp_path / "0" / "scale.svg").issuperset(
        {"budget 1 s", "budget 1.5 s", "budget 10 s", "budget 50 ms", "budget 1 GiB"}
    )


@pytest.mark.thorough
def test_a_kept_store_is_made_once(tmp_path):
    """The second request gives the same directory, with nothing in it written again."""
    first = kept_store(tmp_path, 500)
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*")}
    assert kept_store(tmp_path, 500) == first
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*")} == before
    assert list(tmp_path.iterdir()) == [first]


def test_a_program_that_fails_is_no_measurement():
    """What went wrong is said; no figure comes of it."""
    with pytest.raises(ProgramFailed, match="no-such-option"):
        run(["ls", "--no-such-option"])


def _size(events, *, tables_s, fetch_s=0.01, peak_bytes=1 << 28):
    programs = {name: tables_s for name in OPERATIONS if not name.startswith("fetch")}
    figures = [
        Measured(operation=name, page_cache="dropped", wall_s=wall_s, cpu_s=wall_s, peak_bytes=peak_bytes, **ANY_TIMES)
        for name, wall_s in programs.items()
    ]
    figures += [Measured(operation="fetch", page_cache="dropped", wall_s=fetch_s, **ANY_TIMES)]
    return Size(
        wanted_events=events,
        events=events,
        trials=events // 60,
        segments=1,
        store_bytes=events * 90,
        measured=tuple(figures),
    )


def _texts(path):
    return {"".join(element.itertext()).strip() for element in ET.parse(path).iter() if element.tag.endswith("text")}
