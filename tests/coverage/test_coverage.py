"""The intervals hold the truth as often as they say, on designs that would break an interval over units."""

import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from lhaw_record.analytics.statistics.inference import InferenceSettings, Units, estimate
from tests.coverage import families
from tests.coverage.__main__ import main
from tests.coverage.page import read_section
from tests.coverage.simulation import HIGHEST_ERROR, LOWEST_COVERAGE, all_simulated, covered, grid
from tests.coverage.studies import KINDS, Design

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
HARD = (
    Design("level", 13, 7, 0.3, 1, False, 0.5),
    Design("level", 13, 7, 0.0, 3, True, 0.2),
    Design("share", 13, 0, 0.7, 3, False, 0.05),
    Design("gain", 13, 7, 0.3, 1, False, 0.5),
    Design("gain", 8, 1, 0.0, 1, False, 0.95),
    Design("ratio", 13, 1, 0.3, 1, False, 0.5),
    Design("median", 13, 0, 0.3, 1, False, 0.5),
)


@pytest.mark.parametrize("design", HARD, ids=str)
def test_an_interval_holds_the_truth(design):
    """At least 0.93, less three standard errors of so few studies."""
    found = covered(design, 100)
    assert found.share >= 0.93 - 3 * (0.93 * 0.07 / found.with_interval) ** 0.5


@pytest.mark.thorough
@pytest.mark.parametrize(
    "design", [Design("contrast", 13, 1, 0.3, 1, False, 0.5), Design("tau", 15, 0, 0.3, 1, False, 0.5)], ids=str
)
def test_a_slow_interval_holds_the_truth(design):
    """The same where one study takes milliseconds."""
    assert covered(design, 100).share >= 0.93 - 3 * (0.93 * 0.07 / 100) ** 0.5


@pytest.mark.parametrize("tasks", [6, 13, 30])
def test_nothing_is_seldom_taken_for_a_gain(tasks):
    """At most 1.2 x 0.05, and three standard errors."""
    assert covered(Design("no_gain", tasks, 7, 0.7, 1, False, 0.5), 150).share <= 0.06 + 3 * (0.05 * 0.95 / 150) ** 0.5


@pytest.mark.parametrize("tasks", [7, 13])
def test_a_point_of_no_return_seldom_comes_from_nothing(tasks):
    """Five timings that share their baseline and change nothing: Holm finds any of them in at most 1.2 x 0.05."""
    rng, seen, studies = np.random.default_rng(tasks), 0, 150
    members = np.repeat(np.arange(tasks), 3)
    for _ in range(studies):
        rates = rng.beta(0.7, 0.7, tasks)[members]  # three variants of a task succeed and fail together
        base = rng.binomial(3, rates) / 3
        gains = [rng.binomial(3, rates) / 3 - base for _ in range(5)]
        found = [
            estimate("gain", Units(gain, np.ones(len(gain)), members), InferenceSettings(permutations=500))
            for gain in gains
        ]
        seen += len(gains) * min(each.p_greater for each in found) < 0.05  # Holm's first step
    assert seen / studies <= 0.06 + 3 * (0.05 * 0.95 / studies) ** 0.5


def test_the_grid_is_that_of_the_promise():
    """5 to 100 tasks, 1 to 7 variants, ICC 0 to 0.7, 1 to 3 agents, copies, p up to 0.95; every kind of estimand."""
    designs = list(grid("full"))
    assert {design.kind for design in designs} == set(KINDS) == {design.kind for design in grid("small")}
    rates = [design for design in designs if "amount" not in design.kind]  # whose p may be a standard deviation
    values = {name: {getattr(design, name) for design in rates} for name in Design._fields}
    assert (min(values["tasks"]), max(values["tasks"])) == (5, 100)
    assert (values["variants"], values["agents"], values["is_copied"]) == ({-1, 0, 1, 7}, {1, 3}, {False, True})
    assert (min(values["mean"]), max(values["mean"]), max(values["correlation"])) == (0.05, 0.95, 0.7)


def test_the_page_shows_every_kind():
    """docs/coverage.md has a row for each kind of estimand, before the tables of the other two scripts."""
    page = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    assert "python -m tests.coverage --grid full" in page
    assert [kind.title for kind in KINDS.values()] == re.findall(r"^\| (.*?) \| (?:[a-z_]+) \| ", page, re.MULTILINE)


def test_the_page_misses_nowhere_without_saying_so():
    """Intervals cover 0.93, tests and sentences keep their level; only what is not promised may miss."""
    titles, seen = {kind.title: kind for kind in KINDS.values()}, 0
    for row in read_section(PAGE, "How often"):
        kind = titles[row["kind"]]
        assert ("not promised" in row["worst (tasks)"]) == (not kind.is_promised)
        for cell in (row["worst (tasks)"], row["fewest tasks"]):
            share = float(cell.split()[0])
            assert (share <= HIGHEST_ERROR if kind.is_test else share >= LOWEST_COVERAGE) or not kind.is_promised
            seen += 1
    assert seen == 2 * len(KINDS)
    for row in read_section(PAGE, "Looks"):
        limit = 0.05 + 2 * (0.05 * 0.95 / 2_000) ** 0.5
        assert float(row["gain"]) > 0 or float(row["planned_looks"]) <= limit
    sentences = read_section(PAGE, "Sentences")
    assert len(sentences) == len(families.NULL) + len(families.EFFECTS)
    assert not any(map(families.is_above, sentences))
    for row, kind in product(sentences, ("gain", "loss", "timing")):  # at most a tenth of the power is lost
        before = float(row[f"{kind}_power_before"] or 0)
        assert float(row[f"{kind}_power"] or 1) >= 0.9 * before


@pytest.mark.thorough
def test_processes_change_no_number():
    """Every design has a seed of its own."""
    designs = [Design("no_gain", tasks, 1, 0.0, 1, False, 0.5) for tasks in (6, 8)]
    assert list(all_simulated(designs, 20, 2)) == list(all_simulated(designs, 20, 1))


def test_the_command_judges_the_designs_and_writes_the_page(tmp_path, capsys):
    """A small grid of one kind: 40 studies leave doubt, so 160 new ones count; and the page."""
    done = main(["--kind", "no_gain", "--studies", "40", "--page", str(tmp_path / "page.md"), "--format", "json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (done, row["is_met"], row["method"], row["with_interval"]) == (0, True, "sign_flips", 160)
    bounds = proportion_confint(round(row["share"] * 160), 160, method="beta")
    assert (row["share_low"], row["share_high"]) == pytest.approx(bounds, abs=1e-4)
    assert row["is_certain"] == (row["share_high"] <= 0.06)
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| Gains of nothing | sign_flips | 0.0" in page
    assert "40 studies of each design" in page
