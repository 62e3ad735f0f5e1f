"""Looks of a planned study hold their level, and findings claims at the level of the last one."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from lhaw_record.analytics.comparison.looks import GroupSequentialRule
from lhaw_record.recorder.events import LookTaken
from tests.analytics.findings.test_findings import found_in, store_of
from tests.coverage.looks import LEVEL, Study, simulated


@pytest.mark.sampled(2)
@pytest.mark.parametrize("looks", [1, 2, 4, 7])
def test_the_levels_of_all_looks_together_are_the_level(looks):
    """Scipy's multivariate normal, which knows nothing of the recursion, gives 0.05 for crossing any of the bounds."""
    levels = GroupSequentialRule().levels(looks)
    numbers = np.arange(1, looks + 1)
    covariance = np.minimum.outer(numbers, numbers) / np.sqrt(np.multiply.outer(numbers, numbers))
    bounds = norm.isf(np.array(levels) / 2)
    inside = multivariate_normal(np.zeros(looks), covariance, seed=1).cdf(bounds, lower_limit=-bounds)
    assert 1 - inside == pytest.approx(LEVEL, abs=2e-4)


def test_four_looks_have_the_published_levels():
    """Hwang, Shih and De Cani with gamma = -2: 0.005, 0.010, 0.019 and 0.037."""
    assert [round(level, 3) for level in GroupSequentialRule().levels(4)] == [0.005, 0.010, 0.019, 0.037]


@pytest.mark.thorough
def test_stopping_holds_its_level_and_naive_looks_do_not():
    """Of 300 studies without a gain at most 0.05 and 2 standard errors stop; looking naively stops twice as many."""
    row = simulated(Study(24, 2, 0.0), 300)
    assert row["planned_looks"] <= LEVEL + 2 * (LEVEL * (1 - LEVEL) / 300) ** 0.5
    assert row["naive_looks"] > 1.5 * row["planned_looks"]
    assert simulated(Study(24, 2, 0.2), 100)["planned_looks"] > 0.8


def _studied(level, is_shown):
    store = store_of(12, {"underspecified": lambda _: 0, "ask_user": lambda place: int(place < 8)})
    taken = LookTaken(
        look=1, looks=4, tasks=12, agent="a", measure="pass_at_1", p_value=0.0078125, level=level, is_shown=is_shown
    )
    store.add(store.run_id, taken)
    return found_in(store)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("level", "verdict"), [(0.005, "not shown"), (0.01, "shown")])
def test_findings_of_a_planned_study_name_their_look_and_use_its_level(level, verdict):
    """Eight of twelve tasks gain, p = 2 / 256: that is shown at the level 0.010 and not at 0.005."""
    computed, said = _studied(level, level > 0.0078125)
    (gain,) = (each for each in said if each.table == "claims")
    assert gain.verdict == verdict
    assert {row["is_shown"] for row in computed["claims"].rows if row["success"] == "pass_at_1"} == {verdict == "shown"}
    (look,) = (each for each in said if each.table == "looks")
    assert "4 planned looks; the last was number 1, at 12 tasks, with p = 0.0078" in look.sentence


@pytest.mark.thorough
def test_a_store_that_grew_without_a_plan_says_in_how_many_runs():
    """Two runs with trials are said and correct nothing; one run says nothing."""
    store = store_of(6, {"underspecified": lambda _: 0})
    assert not [each for each in found_in(store)[1] if each.table == "looks"]
    store.start_run()
    store.trial("v0", "ask_user", 0, scores=(1.0,), actions=["submit"])
    (grown,) = (each for each in found_in(store)[1] if each.table == "looks")
    assert "grew in 2 runs without planned looks" in grown.sentence
