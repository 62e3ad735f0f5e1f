"""The model of all effects: closed forms where there are any, and a reason where nothing can be said."""

import math

import numpy as np
import pytest
from scipy.stats import f as f_distribution
from scipy.stats import t as t_distribution

from lhaw_record.analytics.statistics.effects import FEWEST_CLUSTERS, Trial, effect_rows
from lhaw_record.analytics.statistics.inference import InferenceSettings
from lhaw_record.analytics.tables.tables import COMPUTED_TABLES, TABLES, table
from lhaw_record.analytics.views.store import below_tables, connect
from tests.analytics.make_store import Store

ASKED = (3, 3, 2, 2, 1, 3, 2, 0)
UNASKED = (1, 0, 2, 0, 1, 1, 0, 1)


def trials_of(dimension, successes, *, n=3, name=""):
    """Trials of one dimension: by condition the successes of each variant of ``n``; every variant is a task."""
    return [
        Trial((dimension, condition), f"{name or dimension}{place}", f"{name or dimension}{place}", index < count)
        for condition, counts in successes.items()
        for place, count in enumerate(counts)
        for index in range(n)
    ]


def rows_of(*parts):
    """The rows of some trials by dimension and condition, nothing missing."""
    trials = [trial for part in parts for trial in part]
    gaps = {trial.cell: (0, 0) for trial in trials}
    return {(row["dimension"], row["condition"]): row for row in effect_rows(trials, gaps, InferenceSettings())}


def closed_form(plus, minus, n=3):
    """Log odds ratio and its corrected variance where every task has n trials in both conditions.

    Every cluster has the same design, so the correlation cancels: the estimates are the cells' log odds, and a
    task's influence is its mean residual over mu (1 - mu), divided by the number of tasks. Every task has the leverage
    1 / G on the mean of its residuals, which Mancl and DeRouen divide by 1 - 1 / G.
    """
    means = [sum(counts) / (n * len(counts)) for counts in (plus, minus)]
    spreads = [mean * (1 - mean) for mean in means]
    influences = [
        (one / n - means[0]) / spreads[0] - (other / n - means[1]) / spreads[1]
        for one, other in zip(plus, minus, strict=True)
    ]
    ratio = math.log(means[0] / (1 - means[0])) - math.log(means[1] / (1 - means[1]))
    return ratio, sum(one * one for one in influences) / (len(plus) - 1) ** 2


@pytest.mark.thorough
def test_a_balanced_design_has_a_closed_form():
    """Log odds 16/8 and 6/18: ratio log 6 = 1.791759; interval and p-value are those of t with 7 degrees."""
    row = rows_of(trials_of("goal", {"underspecified": UNASKED, "ask_user": ASKED}))["goal", "ask_user"]
    ratio, variance = closed_form(ASKED, UNASKED)
    assert row["value"] == round(ratio, 6) == 1.791759
    half = t_distribution.isf(0.025, 7) * math.sqrt(variance)
    assert (row["low"], row["high"]) == pytest.approx((ratio - half, ratio + half), abs=3e-6)
    assert row["p_value"] == pytest.approx(2 * t_distribution.sf(ratio / math.sqrt(variance), 7), rel=1e-4)
    assert (row["n_units"], row["n_clusters"], row["n_trials"], row["method"]) == (8, 8, 48, "gee")


def test_variants_that_copy_their_task_add_nothing():
    """The cluster is the task: seven variants that all repeat one outcome say what one of them says."""
    data = {"underspecified": UNASKED, "ask_user": ASKED}
    one = rows_of(trials_of("goal", data))["goal", "ask_user"]
    trials = [
        trial._replace(variant=f"{trial.variant}-{copy}") for trial in trials_of("goal", data) for copy in range(7)
    ]
    gaps = {trial.cell: (0, 0) for trial in trials}
    seven = effect_rows(trials, gaps, InferenceSettings())[0]
    assert (seven["n_units"], seven["n_clusters"]) == (56, 8)
    assert [seven[name] for name in ("value", "low", "high", "p_value")] == pytest.approx(
        [one[name] for name in ("value", "low", "high", "p_value")], abs=1e-5
    )


def test_dimensions_are_held_against_each_other():
    """Equal effects give a chi square of 0; of two dimensions it is the squared difference over the variances' sum."""
    data = {"underspecified": UNASKED, "ask_user": ASKED}
    same = rows_of(trials_of("goal", data), trials_of("input", data))["all", "ask_user"]
    assert (same["value"], same["p_value"]) == (pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-3))
    turned = {"underspecified": ASKED, "ask_user": UNASKED}
    row = rows_of(trials_of("goal", data), trials_of("input", turned))["all", "ask_user"]
    (one, spread), (other, other_spread) = closed_form(ASKED, UNASKED), closed_form(UNASKED, ASKED)
    assert row["value"] == pytest.approx((one - other) ** 2 / (spread + other_spread), rel=1e-4)
    assert row["p_value"] == pytest.approx(f_distribution.sf(row["value"], 1, 7), rel=1e-4)


def test_separation_is_a_reason_and_spares_the_rest():
    """A cell in which all succeed, or all fail, has no log odds; other cells keep the estimates they have alone."""
    data = {"underspecified": UNASKED, "ask_user": ASKED, "inject_10": (3,) * 8}
    dead = {"underspecified": (0,) * 8, "ask_user": ASKED}
    rows = rows_of(trials_of("goal", data), trials_of("input", dead))
    assert rows["goal", "inject_10"]["reason"] == rows["input", "ask_user"]["reason"] == "separation"
    assert "value" not in rows["goal", "inject_10"]
    assert rows["goal", "ask_user"]["value"] == 1.791759
    assert rows["all", "ask_user"]["reason"] == "fewer_than_two_dimensions"
    nothing = rows_of(trials_of("goal", {"underspecified": (0,) * 8, "ask_user": (3,) * 8}))
    assert nothing["goal", "ask_user"]["reason"] == "separation"


def test_what_cannot_be_told_has_a_reason():
    """Few variants, no spread between them, no baseline: no interval is made up."""
    few = FEWEST_CLUSTERS - 1
    row = rows_of(trials_of("goal", {"underspecified": UNASKED[:few], "ask_user": ASKED[:few]}))["goal", "ask_user"]
    assert (row["reason"], "low" in row, "value" in row) == ("too_few_clusters", False, True)
    row = rows_of(trials_of("goal", {"underspecified": (1,) * 8, "ask_user": (2,) * 8}))["goal", "ask_user"]
    assert (row["reason"], row["value"], "p_value" in row) == ("no_variation", 1.386294, False)
    row = rows_of(trials_of("goal", {"ask_user": ASKED}))["goal", "ask_user"]
    assert (row["reason"], "value" in row) == ("no_baseline", False)


@pytest.mark.thorough
def test_an_interval_of_few_tasks_holds_the_truth():
    """Of 300 simulated studies of eight tasks, whose log odds ratio is known, at least 0.93 less three errors."""
    rng, held = np.random.default_rng(8), []
    base, asked = 0.2, 0.2 + 0.4 * 0.8
    truth = math.log(asked / (1 - asked)) - math.log(base / (1 - base))
    for _ in range(300):
        arms = {"underspecified": rng.beta(base * 7 / 3, (1 - base) * 7 / 3, 8)}
        arms["ask_user"] = arms["underspecified"] + 0.4 * (1 - arms["underspecified"])
        row = rows_of(trials_of("goal", {name: rng.binomial(3, rates) for name, rates in arms.items()}))
        if row["goal", "ask_user"].get("low") is not None:
            held.append(row["goal", "ask_user"]["low"] <= truth <= row["goal", "ask_user"]["high"])
    assert len(held) > 200
    assert np.mean(held) >= 0.93 - 3 * (0.93 * 0.07 / len(held)) ** 0.5


@pytest.mark.thorough
def test_the_table_is_made_only_when_it_is_named():
    """It is no query, so it is none of the tables that are printed by default; named, it has the shape of them all."""
    assert "effects" in COMPUTED_TABLES
    assert not set(COMPUTED_TABLES) & set(TABLES)
    store = Store(trials=3)
    store.task("t")
    store.trial("t", "full", 0)
    for place, (asked, unasked) in enumerate(zip(ASKED, UNASKED, strict=True)):
        store.variant("t", f"v{place}", "goal input")
        for index in range(3):
            store.trial(f"v{place}", "ask_user", index, scores=[index < asked])
            store.trial(f"v{place}", "underspecified", index, scores=[index < unasked])
    store.trial("v0", "ask_user", 2, agent="b", ends="failed")
    connection = connect(store.snapshot(), only=below_tables())
    try:
        one = table(connection, "effects")
        assert table(connection, "effects") == one
    finally:
        connection.close()
    assert {"n_units", "n_dropped", "n_trials", "n_missing", "method", "reason"} <= set(one.columns)
    rows = {(row["dimension"], row["condition"]): row for row in one.rows}
    assert rows.keys() == {
        ("all", "ask_user"),
        ("goal", "ask_user"),
    }  # by the first segment; full belongs to no variant
    assert rows["goal", "ask_user"]["value"] == 1.791759
    assert rows["goal", "ask_user"]["n_missing"] == 3
