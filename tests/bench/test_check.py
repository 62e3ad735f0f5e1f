"""The ratchet: it sees each of three slow-downs that once went unseen, and its counts do not depend on the machine."""

import sys
import tomllib

import pytest

from tests.bench.check import BUDGETS, counted, judged

PRICES = """
from lhaw_record.recorder.processes import refuse_pandas
refuse_pandas()
from lhaw_record.runners.runs import scheduler
unchanged = scheduler.Scheduler.__init__
def changed(self, *, experiment, plan, index, **others):
    scheduler.expected_costs_usd(experiment, plan, index)
    unchanged(self, experiment=experiment, plan=plan, index=index, **others)
scheduler.Scheduler.__init__ = changed
"""
SEARCHES = """
from lhaw_record.recorder.writing import recorder
unchanged = recorder.Recorder.commit
async def changed(self, drafts, **options):
    for draft in drafts:
        self._redactor.hits(draft.payload)
    await unchanged(self, drafts, **options)
recorder.Recorder.commit = changed
"""
DEADLINES = """
from lhaw_record.runners.base import clock
clock._NEAR_S = float("inf")
"""
UNCHANGED = "\nfrom tests.bench.counts import main\nmain()"


def _complaints(figures):
    budgets = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    if budgets["python"] != f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip(f"the budgets are of Python {budgets['python']}")
    return {name for name, value in figures.items() if judged(name, value, budgets["run"][name])}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("cause", "figure"),
    [
        ("", None),
        (PRICES, "modules"),
        (SEARCHES, "searches per event in the loop's thread"),
        (DEADLINES, "calls per turn"),
    ],
    ids=["none", "prices", "searches", "deadlines"],
)
def test_each_cause_is_caught_when_it_is_put_back(tmp_path, cause, figure):
    """With the import of prices, a search per event or a deadline per change, its figure is over its budget."""
    found = _complaints(counted(["run", str(tmp_path)], ["-c", cause + UNCHANGED]))
    assert (figure in found) if figure else (found == set())


def test_a_figure_past_five_percent_is_a_sentence_with_both_numbers():
    """It names the figure, the old and the new number, and where to write a better one; up to 5 % is silence."""
    budget = {"most": 100, "why": "first count"}
    assert judged("run: calls per turn", 105, budget) is None
    told = judged("run: calls per turn", 106, budget)
    assert told.startswith("run: calls per turn rose to 106 from 100, 6% more (first count).")
    assert "tests/bench/budgets.toml" in told
    assert judged("searches", 0.2, {"most": 0, "why": "none"}) is not None
