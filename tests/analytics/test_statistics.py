"""Intervals: known values, agreement with a resampling written out by hand, and the same digits every time."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from analytics.rank_interval import rank_interval
from analytics.statistics import (
    Settings,
    cluster_weights,
    harmonic_interval,
    median_interval,
    ratio_interval,
    wilson,
)

PLAIN = Settings(cluster_count=3, draws=2000, seed=7, confidence=0.95, method="percentile")


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(0, 10, 0.0, 0.277533), (1, 10, 0.017876, 0.404150), (5, 10, 0.236593, 0.763407), (10, 10, 0.722467, 1.0)],
)
def test_wilson_gives_the_published_values(successes, count, low, high):
    """The score interval at 95 % equals the tabulated one (Newcombe 1998, method 3)."""
    interval = wilson(successes, count, 0.95)
    assert interval == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6), "wilson")


def test_wilson_of_nothing_is_undefined():
    """No unit, no interval."""
    assert wilson(0, 0, 0.95) is None


def test_the_bootstrap_resamples_whole_clusters():
    """The bounds are the quantiles of the ratios that the drawn clusters give."""
    numerators, denominators, clusters = [1.0, 2.0, 6.0, 4.0], [1.0, 1.0, 2.0, 1.0], [0, 0, 1, 2]
    ratios = []
    for weights in cluster_weights(3, 2000, 7):
        above = sum(weights[cluster] * value for cluster, value in zip(clusters, numerators, strict=True))
        below = sum(weights[cluster] * value for cluster, value in zip(clusters, denominators, strict=True))
        ratios.append(above / below)
    ratios.sort()
    interval = ratio_interval(numerators, denominators, clusters, PLAIN)
    assert interval.low == pytest.approx(_quantile(ratios, 0.025), abs=1e-6)
    assert interval.high == pytest.approx(_quantile(ratios, 0.975), abs=1e-6)


def test_the_median_repeats_a_value_as_often_as_its_cluster_is_drawn():
    """The bounds are the quantiles of the medians of the drawn units, written out."""
    values, clusters = [10.0, 40.0, 25.0, 70.0], [0, 1, 1, 2]
    medians = []
    for weights in cluster_weights(3, 2000, 7):
        units = sorted(
            value for value, cluster in zip(values, clusters, strict=True) for _ in range(int(weights[cluster]))
        )
        middle = len(units) // 2
        medians.append(units[middle] if len(units) % 2 else (units[middle - 1] + units[middle]) / 2)
    medians.sort()
    interval = median_interval(values, clusters, PLAIN)
    assert interval.low == pytest.approx(_quantile(medians, 0.025), abs=1e-6)
    assert interval.high == pytest.approx(_quantile(medians, 0.975), abs=1e-6)


def test_draws_without_the_cell_do_not_count():
    """A cell with few of the set's clusters skips the draws in which none of them came."""
    settings = PLAIN._replace(cluster_count=40)
    interval = ratio_interval([0.0, 1.0], [1.0, 1.0], [3, 17], settings)
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_the_weights_draw_as_many_clusters_as_there_are():
    """Every draw has the size of the set, and the same seed gives the same weights."""
    weights = cluster_weights(5, 100, 11)
    assert weights.shape == (100, 5)
    assert (weights.sum(axis=1) == 5).all()
    assert (weights == cluster_weights.__wrapped__(5, 100, 11)).all()
    assert (weights != cluster_weights(5, 100, 12)).any()


def test_the_first_draws_are_pinned():
    """The generator's integers do not change under us: published intervals stay reproducible."""
    assert cluster_weights(4, 3, 20260210).astype(int).tolist() == [[1, 2, 1, 0], [2, 0, 1, 1], [2, 1, 0, 1]]


@pytest.mark.parametrize("clusters", [[0, 0], [2, 2]])
def test_one_cluster_gives_no_interval(clusters):
    """What cannot be resampled has no bounds."""
    assert ratio_interval([1.0, 2.0], [1.0, 1.0], clusters, PLAIN) is None
    assert median_interval([1.0, 2.0], clusters, PLAIN) is None


def test_a_ratio_over_nothing_has_no_interval():
    """Zero questions in every cluster: undefined, not an error."""
    assert ratio_interval([1.0, 2.0], [0.0, 0.0], [0, 1], PLAIN) is None


def test_bca_equals_the_percentile_where_there_is_no_bias_and_no_skew():
    """On symmetric data the corrected interval is close to the plain one; on skewed data it moves."""
    clusters = list(range(30))
    symmetric = [float(value) for value in range(-15, 0)] + [float(value) for value in range(1, 16)]
    skewed = [float(2**value) for value in range(30)]
    settings = PLAIN._replace(cluster_count=30)
    plain, corrected = (ratio_interval(symmetric, [1.0] * 30, clusters, settings._replace(method=m)) for m in METHODS)
    assert corrected.low == pytest.approx(plain.low, abs=0.7)
    assert corrected.method == "bca"
    plain, corrected = (ratio_interval(skewed, [1.0] * 30, clusters, settings._replace(method=m)) for m in METHODS)
    assert corrected.high > plain.high


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), min_size=2, max_size=30), st.integers(0, 99))
def test_the_order_of_units_does_not_matter(units, seed):
    """The same units in another order give the same bounds."""
    settings = PLAIN._replace(cluster_count=6, draws=100)
    shuffled = random.Random(seed).sample(units, len(units))
    intervals = [
        ratio_interval([value for _, value in order], [1.0] * len(order), [cluster for cluster, _ in order], settings)
        for order in (units, shuffled)
    ]
    assert intervals[0] == pytest.approx(intervals[1], abs=2e-6) if intervals[0] else intervals[1] is None


UNITS = st.lists(st.tuples(*[st.integers(0, 3)] * 5), min_size=3, max_size=12)


@given(UNITS)
def test_f1_draws_precision_and_recall_together(units):
    """The bounds are the quantiles of 2PR / (P + R) over the draws in which both ratios are defined."""
    settings = PLAIN._replace(cluster_count=4, draws=100)
    found, asked, covered, wanted, clusters = zip(*units, strict=True)
    drawn = []
    for weights in cluster_weights(4, 100, PLAIN.seed):
        hits, questions, told, removed = (
            sum(weights[cluster] * value for cluster, value in zip(clusters, column, strict=True))
            for column in (found, asked, covered, wanted)
        )
        if questions and removed:
            precision, recall = hits / questions, told / removed
            drawn.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    interval = harmonic_interval((found, asked), (covered, wanted), clusters, settings)
    _is_read_off(interval, drawn, clusters)


@given(UNITS)
def test_tau_draws_the_cells_of_a_cluster_together(units):
    """The bounds are the quantiles of scipy's tau-b over cells that are repeated as often as their cluster is drawn."""
    settings = PLAIN._replace(cluster_count=4, draws=100)
    left, right, _, _, clusters = zip(*units, strict=True)
    drawn = []
    for weights in cluster_weights(4, 100, PLAIN.seed):
        times = [int(weights[cluster]) for cluster in clusters]
        both = [np.repeat(side, times) for side in (left, right)]
        if all(len(set(side.tolist())) > 1 for side in both):
            drawn.append(kendalltau(*both).statistic)
    _is_read_off(rank_interval(left, right, clusters, settings), drawn, clusters)


def _is_read_off(interval, drawn, clusters):
    if len(set(clusters)) < 2 or not drawn:
        assert interval is None
    else:
        ordered = sorted(drawn)
        assert interval.low == pytest.approx(_quantile(ordered, 0.025), abs=2e-6)
        assert interval.high == pytest.approx(_quantile(ordered, 0.975), abs=2e-6)


METHODS = ("percentile", "bca")


def _quantile(ordered, level):
    """Linear between the order statistics."""
    place = level * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
