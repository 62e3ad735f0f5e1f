"""The engine of inference: interval and p-value agree, known answers, references that share no code with it."""

import math
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test, t, ttest_1samp, ttest_ind
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from lhaw_record.analytics.statistics.inference import (
    InferenceSettings,
    Units,
    agreeing,
    band_halves,
    contrast,
    estimate,
    printed,
)
from lhaw_record.analytics.statistics.randomization import Draws, permuted
from tests.support.depth import at_depth

VALUES = st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 0.25, 1 / 3, 0.5, 1.0])
QUICK = InferenceSettings(draws=300, permutations=300)


def units(rows, weights=None):
    """Units from pairs of value and cluster."""
    values, clusters = (np.array(column) for column in zip(*rows, strict=True))
    below = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float)
    return Units(values.astype(float) * below, below, clusters)


@settings(max_examples=at_depth(150, 1000))
@given(
    rows=st.lists(st.tuples(VALUES, st.integers(0, 14)), min_size=1, max_size=40),
    level=st.sampled_from([0.5, 0.9, 0.95]),
)
def test_a_gain_excludes_0_if_and_only_if_its_p_value_is_below_the_level(rows, level):
    """By construction: enumerated or drawn, few clusters or many, equal sizes or not."""
    found = estimate("gain", units(rows), QUICK._replace(confidence=level))
    if found.low is not None:
        assert (found.low > 0 or found.high < 0) == (found.p_value < round(1 - level, 12))
        assert found.low <= found.value + 1e-6
        assert found.value <= found.high + 1e-6
    elif found.reason == "too_few_clusters":
        assert found.p_value >= round(1 - level, 12)


@settings(max_examples=at_depth(60, 400))
@given(
    one=st.lists(st.tuples(VALUES, st.integers(0, 6)), min_size=1, max_size=15),
    other=st.lists(st.tuples(VALUES, st.integers(10, 16)), min_size=1, max_size=15),
)
def test_a_contrast_excludes_0_if_and_only_if_its_p_value_is_below_the_level(one, other):
    """The same for two arms of different tasks."""
    found = contrast("level", units(one), units(other), QUICK)
    if found.low is not None:
        assert (found.low > 0 or found.high < 0) == (found.p_value < 0.05)


@pytest.mark.parametrize("level", [0.05, 0.1, 0.001, 0.5, 0.0123])
def test_rounding_makes_no_contradiction(level):
    """A p-value just below the level stays below it with six digits, one at the level stays there; bounds follow."""
    for below in (1e-16, 1e-12, 1e-9, 1e-7):
        p_value = level * (1 - below)
        assert float(f"{printed(p_value, level):.6g}") < level or p_value == level
        assert printed(p_value, level) == pytest.approx(level, rel=1e-4)
    assert printed(level, level) == level
    assert agreeing(4e-7, 0.5, 1) == (1e-6, 0.5)
    assert agreeing(-0.5, -4e-7, -1) == (-0.5, -1e-6)
    assert agreeing(1e-6, 0.5, 0) == (0.0, 0.5)


@pytest.mark.parametrize("kind", ["gain", "percent_gain"])
def test_equal_gains_of_all_tasks_are_a_level_of_all(kind):
    """Eight tasks with the largest gain: 8 of 8, from -1 to 1. None of them with any: 8 halves. Nothing else varies."""
    scale = 100 if kind == "percent_gain" else 1
    for gain in (1.0, 0.0, -1.0):
        found = estimate(kind, units([(scale * gain, task) for task in range(8)]), InferenceSettings())
        level = estimate("level", units([((1 + gain) / 2, task) for task in range(8)]), InferenceSettings())
        assert (found.low, found.high) == pytest.approx(
            (scale * (2 * level.low - 1), scale * (2 * level.high - 1)), abs=3e-6 * scale
        )
        assert found.reason is None
    assert (
        estimate("free_gain", units([(1.0, task) for task in range(8)]), InferenceSettings()).reason == "no_variation"
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_interval_is_every_difference_that_the_test_does_not_reject(seed):
    """Shifting all values by a bound inside keeps p at the level or above, outside it falls below; sizes differ.

    Each bound lies further out than that by what one more task of mean size with a gain of -1 or 1 moves the mean.
    """
    chance = Random(seed)
    rows = [(chance.choice([-1, 0, 0.25, 1, 1]), chance.randrange(9)) for _ in range(25)]
    found = estimate("gain", units(rows), InferenceSettings())
    down, up = ((side * found.value + 1) / (found.n_clusters + 1) for side in (1, -1))
    if found.p_value < 0.05:  # the bound at 0 gets no room beyond 0
        bounds = ((found.high - up, 1),) if found.value > 0 else ((found.low + down, -1),)
    else:
        bounds = ((found.low + down, -1), (found.high - up, 1))
    for bound, outwards in bounds:
        for step, is_inside in ((-1e-4, True), (1e-4, False)):
            shifted = [(value - bound - outwards * step, cluster) for value, cluster in rows]
            assert (estimate("gain", units(shifted), InferenceSettings()).p_value >= 0.05) == is_inside


@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
def test_p_values_of_gains_are_those_of_scipy(alternative):
    """Exact p-values of eleven single differences, and of nine clusters by their sums."""
    values = np.random.default_rng(3).choice([-1.0, -0.5, 0.0, 0.5, 1.0], p=[0.1, 0.1, 0.3, 0.2, 0.3], size=11)
    theirs = permutation_test(
        (values,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative=alternative
    )
    ours = estimate("gain", units(list(zip(values, range(11), strict=True))), InferenceSettings())
    assert (ours.p_value if alternative == "two-sided" else ours.p_greater) == pytest.approx(theirs.pvalue)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sizes", [(5, 6), (7, 5), (3, 4)])
def test_p_values_of_contrasts_are_those_of_scipy(sizes):
    """All exchanges of clusters by Welch's t; units of a cluster move together."""
    rng = np.random.default_rng(5)
    one, other = rng.random(sizes[0]), 0.6 * rng.random(sizes[1])
    kind = {"n_resamples": np.inf, "alternative": "greater"}
    theirs = permutation_test((one, other), lambda x, y: abs(ttest_ind(x, y, equal_var=False).statistic), **kind)
    found = permuted(*((2 * arm, np.full(len(arm), 2.0)) for arm in (one, other)), 0.95, Draws(10_000, 1))
    assert found.p_value == pytest.approx(theirs.pvalue)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_a_contrast_holds_every_difference_that_the_test_does_not_reject(seed):
    """Shifting the first arm by an end of the inversion puts the p-value of scipy on either side of 0.05."""
    rng = np.random.default_rng(seed)
    one, other = rng.random(6), rng.random(5) ** 2
    found = permuted(*((arm, np.ones(len(arm))) for arm in (one, other)), 0.95, Draws(10_000, 1))
    kind = {"n_resamples": np.inf, "alternative": "greater"}
    for end, outwards in ((found.low, -1), (found.high, 1)):
        for step, is_inside in ((-1e-4, True), (1e-4, False)):
            arms = (one - end - outwards * step, other)
            theirs = permutation_test(arms, lambda x, y: abs(ttest_ind(x, y, equal_var=False).statistic), **kind)
            assert (theirs.pvalue >= 0.05) == is_inside


def test_a_contrast_of_levels_is_at_least_as_long_as_the_levels_say():
    """Of 0 of 5 and 0 of 8 tasks the test sees no variation; Newcombe's difference of the two levels is left.

    With 60 tasks in each arm, where t is close to the normal, it is close to that of statsmodels.
    """
    rows = [[(0.0, task) for task in range(count)] for count in (5, 8)]
    one, other = (estimate("level", units(arm), InferenceSettings()) for arm in rows)
    found = contrast("level", *map(units, rows), InferenceSettings())
    assert (found.low, found.high, found.p_value) == (-other.high, one.high, 1.0)
    assert found.high > 0.5
    counts = (1, 60), (8, 60)
    rows = [[(float(task < hits), task) for task in range(count)] for hits, count in counts]
    found = contrast("level", *map(units, rows), InferenceSettings())
    low, high = confint_proportions_2indep(*counts[0], *counts[1], method="newcomb")
    assert found.p_value < 0.05
    assert (found.low, found.high) == (pytest.approx(low, abs=0.02), pytest.approx(high, abs=0.02))


@pytest.mark.parametrize("shares", [(0.0, 0.1), (0.0, 0.4), (1.0, 0.8)])
def test_a_contrast_of_levels_is_not_surer_than_the_levels_are(shares):
    """Its p-value is at least the one at which Newcombe's interval of the two levels ends at 0.

    5 tasks that all fail had p < 0.001 beside 30 of 0.1: by their number, they may well succeed as often.
    """
    rows = [[(shares[0], task) for task in range(5)], [(shares[1] + task % 3 / 50, task) for task in range(30)]]
    found = contrast("level", *map(units, rows), InferenceSettings())
    sums = [np.array([value for value, _ in arm]) for arm in rows]
    alone = permuted(*((each, np.ones(len(each))) for each in sums), 0.95, Draws(10_000, 1))
    assert alone.p_value < 0.001 < found.p_value
    one, other = (estimate("level", units(arm), InferenceSettings(confidence=1 - found.p_value)) for arm in rows)
    lower, higher = sorted((one, other), key=lambda level: level.value)
    reach = math.hypot(lower.high - lower.value, higher.value - higher.low)
    assert reach == pytest.approx(higher.value - lower.value, abs=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize(("tasks", "mean"), [((5, 30), 0.1), ((8, 100), 0.05), ((13, 100), 0.05), ((4, 30), 0.1)])
def test_few_tasks_that_differ_beside_many_that_are_alike_give_no_false_effect(tasks, mean):
    """Arms of one mean, drawn here: of 400 contrasts at most 6 % reject. The permutation alone rejected 31 to 43 %."""
    rng, settings, rejected = np.random.default_rng(7), InferenceSettings(permutations=500), 0
    for _ in range(400):
        rates = rng.beta(mean * 3 / 7, (1 - mean) * 3 / 7, tasks[0]), np.full(tasks[1], mean)
        arms = [[(rng.binomial(3, rate) / 3, task) for task, rate in enumerate(arm) for _ in range(4)] for arm in rates]
        rejected += contrast("level", *map(units, arms), settings).p_value < 0.05
    assert rejected <= 0.06 * 400


@pytest.mark.thorough
@pytest.mark.parametrize("tasks", [(7, 30), (8, 30), (13, 100)])
def test_few_tasks_that_are_asked_about_unlike_beside_many_give_no_false_effect(tasks):
    """Questions per trial of one mean, drawn here: of 400 contrasts at most 6 % reject, and 93 % hold the truth.

    The permutation alone rejected 13 to 18 %.
    """
    rng, settings, rejected = np.random.default_rng(7), InferenceSettings(draws=500, permutations=500), 0
    for _ in range(400):
        rates = rng.gamma(1 / 1.5, 1.5, tasks[0]), np.ones(tasks[1])
        arms = [[(rng.poisson(3 * rate) / 3, task) for task, rate in enumerate(arm) for _ in range(4)] for arm in rates]
        found = contrast("amount", *map(units, arms), settings)
        rejected += found.p_value < 0.05
        assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)
    assert rejected <= 0.06 * 400


@pytest.mark.parametrize(("one", "reason"), [([0.5] * 6, "too_few_clusters"), ([0.0] * 9, "no_variation")])
def test_a_contrast_of_amounts_is_refused_where_an_arm_has_no_interval(one, reason):
    """Six tasks, or nine that nobody asked about, do not say what other tasks would be like."""
    other = [(place % 3 + 0.5, place) for place in range(20)]
    found = contrast(
        "amount", units([(value, place) for place, value in enumerate(one)]), units(other), InferenceSettings()
    )
    assert (found.low, found.p_value, found.p_greater, found.reason) == (None, None, None, reason)
    assert found.value == round(one[0] - np.mean([value for value, _ in other]), 6)


@pytest.mark.parametrize("tasks", [8, 13])
def test_nothing_is_seldom_taken_for_a_loss(tasks):
    """Seven variants share three trials with the full prompt, 95 % of all trials succeed: flips alone found 13 %."""
    rng, rejected = np.random.default_rng(7), {"gain": 0, "loss": 0}
    members = np.repeat(np.arange(tasks), 7)
    for _ in range(150):
        lost = (rng.binomial(3, 0.95, tasks) / 3)[members] - rng.binomial(3, 0.95, len(members)) / 3
        for kind in rejected:
            found = estimate(kind, units(list(zip(lost, members, strict=True))), QUICK)
            rejected[kind] += found.p_value < 0.05
            assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)
    assert rejected["loss"] <= 0.06 * 150 < rejected["gain"]


def test_a_loss_is_tested_at_the_room_for_one_more_task():
    """Eight losses with a mean of 0.5 and room of 1.5 / 9: the p-value is that of these losses less the room."""
    lost = [1, 1, 0.75, 0.5, 0.5, 0.25, 0.25, -0.25]
    less = [value - 1.5 / 9 for value in lost]
    found, beyond = (
        estimate(kind, units([(value, task) for task, value in enumerate(values)]), InferenceSettings())
        for kind, values in (("loss", lost), ("gain", less))
    )
    gain = estimate("gain", units([(value, task) for task, value in enumerate(lost)]), InferenceSettings())
    assert found.p_value == beyond.p_value > gain.p_value
    assert (found.value, found.high) == (gain.value, gain.high)


def test_every_sign_choice_is_looked_at_once():
    """With 7 clusters the p-value is the share of all 128 choices, counted one by one."""
    sums = [1.0, 0.5, -0.25, 1.0, 0.0, 0.75, 0.5]
    extreme = sum(
        abs(sum(s * v for s, v in zip(signs, sums, strict=True))) >= sum(sums) for signs in product((1, -1), repeat=7)
    )
    assert estimate("gain", units(list(zip(sums, range(7), strict=True))), InferenceSettings()).p_value == extreme / 128


def test_a_level_of_independent_units_is_wilson_with_the_quantile_of_t():
    """One unit per task: the interval of statsmodels at the level whose normal quantile is that of t."""
    from scipy.stats import norm, t

    rows = [(float(place < 9), place) for place in range(30)]
    found = estimate("level", units(rows), InferenceSettings())
    alpha = 2 * norm.sf(t.isf(0.025, 29))
    seen = 4 * 0.3 * 0.7 * 29  # the variance p q / 29, shrunk towards p q / 30 with the weight of 2
    size = (seen + 2) / (seen / 29 + 2 / 30)
    low, high = proportion_confint(0.3 * size, size, alpha=alpha, method="wilson")
    assert (found.low, found.high) == pytest.approx((low, high), abs=2e-6)


def test_copies_of_a_value_add_nothing_to_what_is_known():
    """A value that seven variants copy from one trial counts once: the interval is that of the tasks alone."""
    rng = np.random.default_rng(1)
    tasks = [(value, place) for place, value in enumerate(rng.integers(0, 2, size=13))]
    copied = [row for row in tasks for _ in range(7)]
    one, seven = (estimate("level", units(rows), InferenceSettings()) for rows in (tasks, copied))
    assert (one.low, one.high) == (seven.low, seven.high)
    one, seven = (estimate("gain", units(rows), InferenceSettings()) for rows in (tasks, copied))
    assert one.p_value == seven.p_value


@pytest.mark.parametrize(("kind", "fewest"), [("level", 5), ("percent", 5), ("ratio", 7), ("median", 8), ("gain", 6)])
def test_floors(kind, fewest):
    """One cluster less has an estimate and no interval, with the reason; more units in a cluster make no difference."""
    rng = np.random.default_rng(2)
    for count in (fewest - 1, fewest):
        rows = [(value, place % count) for place, value in enumerate(rng.random(8 * count))]
        found = estimate(kind, units(rows), InferenceSettings())
        assert found.value is not None
        assert found.n_clusters == count
        assert (found.low is None, found.reason) == ((True, "too_few_clusters") if count < fewest else (False, None))


@pytest.mark.parametrize("kind", ["level", "gain", "ratio", "median"])
def test_the_order_of_the_units_makes_no_difference(kind):
    """Every machine prints the same digits, in whatever order the rows come and whatever the clusters are called."""
    chance = Random(1)
    rows = [(chance.choice([0, 1 / 3, 2 / 3, 1]), chance.randrange(20)) for _ in range(60)]
    first = estimate(kind, units(rows), InferenceSettings())
    chance.shuffle(rows)
    assert (
        estimate(kind, units([(value, (7 * cluster + 3) % 20) for value, cluster in rows]), InferenceSettings())
        == first
    )


def test_clusters_that_begin_alike_are_in_the_order_of_their_values():
    """Tasks with the same lowest value have names, too, which tell nothing about a median."""
    chance = Random(1)
    steps = range(0, 45, 5)
    rows = [(chance.choice(steps) * chance.choice([1, 1, 2]) / 100, cluster) for cluster in range(12) for _ in range(5)]
    rows += [(0.0, cluster) for cluster in range(12)]
    renamed = [(value, (5 * cluster + 7) % 12) for value, cluster in rows]
    assert estimate("median", units(renamed), InferenceSettings()) == estimate(
        "median", units(rows), InferenceSettings()
    )


def test_a_share_of_all_or_none_keeps_its_interval():
    """20 tasks that all succeed say that the share is high, and not that it is 1."""
    found = estimate("level", units([(1.0, place) for place in range(20)]), InferenceSettings())
    assert found.high == 1.0
    assert found.low == pytest.approx(1 / (1 + 2.093024**2 / 20), abs=1e-6)


def test_weights_are_weights():
    """A unit of weight 2 counts as two equal units of its cluster in the value and in the test."""
    rows = [(value, place) for place, value in enumerate([1, 0.5, 0, 1, -0.5, 0.25, 1, 0])]
    double = [row for row in rows for _ in range(2 if row[1] % 2 else 1)]
    weighted = estimate("gain", units(rows, [2 if cluster % 2 else 1 for _, cluster in rows]), InferenceSettings())
    repeated = estimate("gain", units(double), InferenceSettings())
    assert (weighted.value, weighted.low, weighted.p_value) == (repeated.value, repeated.low, repeated.p_value)


def test_nothing_is_nothing():
    """No units, or weights of 0, give a reason."""
    empty = np.array([])
    assert estimate("level", Units(empty, empty, empty), InferenceSettings()).reason == "no_units"
    assert estimate("ratio", units([(1, 0)], [0]), InferenceSettings()).reason == "no_denominator"
    assert not math.isnan(estimate("level", units([(1, 0)]), InferenceSettings()).value)


def test_draws_that_differ_by_rounding_only_make_no_interval_endless():
    """Seven of eight tasks have one ratio; a draw of these alone has no variance but what rounding leaves."""
    rows = [(100 / 3 * 1.1, task) for task in range(7)] + [(0.0, 7)]
    found = estimate("ratio", units(rows, weights=[1 / 3] * 8), InferenceSettings())
    assert found.reason is None
    assert -100 < found.low < found.high < 100


def test_a_cluster_with_a_gain_and_no_question_counts():
    """The value is over all clusters, so the interval is, too: leaving out those without a question left it out."""
    gained = [(100.0, 0)] * 4 + [
        (gain, n) for gain, n in zip((0, 50, 0, 100, 0, 50, 0), (5, 4, 6, 3, 5, 4, 5), strict=True)
    ]
    above, below = (np.array(column, dtype=float) for column in zip(*gained, (0.0, 0), strict=True))
    found = estimate("ratio", Units(above, below, np.arange(12)), InferenceSettings())
    assert found.value == pytest.approx(600 / 32, abs=1e-6)
    assert found.low < found.value < found.high
    assert found.n_clusters == 11  # nothing happened in the twelfth
    below[5:] = 0
    assert estimate("ratio", Units(above, below, np.arange(12)), InferenceSettings()).reason == "too_few_clusters"


@pytest.mark.parametrize(("kind", "least"), [("amount", 0.0), ("amount_from_1", 1.0)])
def test_an_amount_is_nowhere_below_the_least_that_it_can_be(kind, least):
    """Seven tasks at the least and one far above: an unbounded ratio goes below, an amount ends there."""
    rows = [(least, task) for task in range(7)] + [(least + 9, 7)]
    free, found = (estimate(each, units(rows), InferenceSettings()) for each in ("ratio", kind))
    assert free.low < least
    assert found._replace(high=free.high, reason=None) == free._replace(low=least, reason=None)
    assert found.reason == "rare_effect"
    assert found.high == free.high or kind == "amount"  # of which the upper bound allows for a skewed cost


def test_no_bound_is_beyond_what_a_difference_can_be():
    """Six of seven gains are 1: the interval ends at 1, at 2 for differences of gains, and at 100 for percentages."""
    for kind, largest in (("gain", 1.0), ("double_gain", 2.0), ("percent_gain", 100.0)):
        rows = [(largest, task) for task in range(6)] + [(0.0, 6)]
        assert estimate(kind, units(rows), InferenceSettings()).high == largest
    arms = [units([(value, task) for task in range(7)]) for value in (1.0, 0.0)]
    arms[0].numerators[0] = 0.0
    assert contrast("level", arms[0], arms[1], InferenceSettings()).high == 1.0


@pytest.mark.parametrize(("variants", "doubt"), [([1] * 12, None), ([12] + [1] * 11, "one_task_has_52_pct")])
def test_a_task_with_most_variants_widens_a_level_and_is_named(variants, doubt):
    """Unequal tasks have (23)^2 / (144 + 11) = 3.4 equal ones and 2.4 degrees of freedom; equal ones all eleven."""
    rows = [(place % 2, place) for place, count in enumerate(variants) for _ in range(count)]
    found = estimate("level", units(rows), InferenceSettings())
    assert found.reason == doubt
    assert (found.high - found.low > 0.75) == (doubt is not None)


@pytest.mark.parametrize(("affected", "doubt"), [(0, "rare_effect"), (5, "rare_effect"), (6, None)])
def test_a_gain_of_few_tasks_is_named(affected, doubt):
    """Of 30 tasks, five are less than a fifth and too few; of 24 or fewer, five are not."""
    settings = InferenceSettings(permutations=200)
    assert estimate("gain", units([(place < affected, place) for place in range(30)]), settings).reason == doubt
    few = estimate("gain", units([(place < 5, place) for place in range(24)]), settings)
    assert few.reason is None


def test_a_skewed_cost_reaches_up_to_the_log_normal_mean():
    """Where the logarithms vary by 1.5, Cox's interval (Zhou and Gao 1997) reaches beyond bootstrap and jackknife."""
    costs = np.exp(np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 2.5]))
    found = estimate("amount", units(list(zip(costs, range(8), strict=True))), InferenceSettings())
    logs = np.log(costs)
    variance = logs.var(ddof=1)
    error = np.sqrt(variance / 8 + variance**2 / 14)
    cox = np.exp(logs.mean() + variance / 2 + t.ppf(0.975, 6) * error)
    assert found.high == pytest.approx(cox + (costs.max() - costs.mean()) / 9, abs=2e-6)


@pytest.mark.parametrize("gap", [0.5, 0.1])
def test_a_recovered_share_is_every_share_that_a_t_test_of_the_tasks_does_not_reject(gap):
    """Where the denominator may be 0, the set has no bounds; else its ends are where scipy's p passes 0.05."""
    chance = np.random.default_rng(3)
    below = gap + 0.3 * chance.standard_normal(12)
    above = 0.6 * below + 0.1 * chance.standard_normal(12)
    clusters = np.arange(12)
    found = estimate("recovered", Units(above, below, clusters), InferenceSettings())
    is_bounded = ttest_1samp(below, 0).pvalue < 0.05
    assert (found.reason, found.low is not None) == (None if is_bounded else "unbounded", is_bounded)
    for share in np.arange(-2, 3, 0.01) if is_bounded else ():
        is_kept = ttest_1samp(above - share * below, 0).pvalue >= 0.05
        assert is_kept == (found.low <= share <= found.high)


@pytest.mark.parametrize(
    ("full", "missing", "asked", "recovered", "of_full"),
    [(247, 120, 198, 0.61, 0.80), (169, 76, 134, 0.62, 0.79), (61, 28, 36, 0.24, 0.59), (44, 15, 24, 0.31, 0.55)],
)
def test_recovered_shares_of_published_counts(full, missing, asked, recovered, of_full):
    """Issues resolved of 497 by four models of Ambig-SWE: beside the share that it prints, what asking recovered."""
    place = np.arange(497)
    arms = [(place < count).astype(float) for count in (full, missing, asked)]
    shares = (arms[2] - arms[1], arms[0] - arms[1]), (arms[2], arms[0])
    values = [estimate("recovered", Units(*each, place), InferenceSettings()).value for each in shares]
    assert [round(value, 2) for value in values] == [recovered, of_full]


@pytest.mark.parametrize("kind", ["level", "gain", "loss", "ratio", "amount", "recovered", "median"])
def test_units_without_weight_are_no_estimate(kind):
    """Twelve tasks whose units all weigh nothing have no value, no interval and no band, and a reason."""
    nothing = Units(np.zeros(12), np.zeros(12), np.arange(12))
    found = estimate(kind, nothing, InferenceSettings(draws=50, permutations=50))
    assert (found.value, found.low, found.p_value, found.reason) == (None, None, None, "no_denominator")
    assert band_halves([nothing, units([(task % 2, task) for task in range(12)])], InferenceSettings())[0] is None
