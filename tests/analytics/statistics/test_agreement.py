"""Agreement of graders: kappa and its interval as a slow reading has them, and the table over random stores."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from lhaw_record.analytics.statistics.agreement import rank_agreement, rank_correlation, weighted_kappa
from lhaw_record.analytics.statistics.inference import InferenceSettings
from lhaw_record.analytics.views.store import connect
from tests.analytics import reference_agreement as slow
from tests.analytics.make_store import Store
from tests.analytics.random_stores import PLANNED
from tests.support.depth import at_depth

SCORES = (0.0, 0.5, 1.0)
DRAWS = 200

VALUES = st.sampled_from([-1.0, -2 / 3, -0.5, -1 / 3, 0.0, 1 / 3, 0.5, 2 / 3, 1.0])


def kappa_of(things, **options):
    """The estimate of things (one score, the other score, cluster)."""
    one, other, clusters = (np.array(column) for column in zip(*things, strict=True))
    return weighted_kappa(one, other, clusters, InferenceSettings(draws=DRAWS, **options))


@settings(max_examples=at_depth(60, 300))
@given(things=st.lists(st.tuples(st.sampled_from(SCORES), st.sampled_from(SCORES), st.integers(0, 9)), min_size=1))
def test_kappa_is_that_of_a_slow_reading(things):
    """The value by its definition in fractions, and an interval around it from eight clusters on."""
    found = kappa_of(things)
    exact = slow.kappa([(Fraction(one), Fraction(other)) for one, other, _ in things])
    assert (found.value is None) == (exact is None)
    if exact is not None:
        assert found.value == pytest.approx(float(exact), abs=1e-6)
        if found.n_clusters < 8:
            assert found.reason == "too_few_clusters"
        elif found.low is not None:
            assert found.low <= found.value <= found.high


def test_the_order_of_the_things_makes_no_difference():
    """Every machine prints the same digits, in whatever order the rows come and whatever the clusters are called."""
    chance = Random(1)
    things = [(chance.choice(SCORES), chance.random(), chance.randrange(9)) for _ in range(50)]
    first = kappa_of(things)
    chance.shuffle(things)
    assert kappa_of(things) == first
    assert kappa_of([(one, other, (cluster * 5 + 3) % 9) for one, other, cluster in things]) == first


def test_known_values():
    """All alike is 1, all opposite is -1, and a grader that gives one score to everything agrees as chance does."""
    values = {1.0: (0, 1, 0, 1), -1.0: (1, 0, 1, 0), 0.0: (1, 1, 1, 1)}
    for value, other in values.items():
        assert kappa_of(list(zip((0, 1, 0, 1), other, range(4), strict=True))).value == value
    assert kappa_of([(1, 1, 0), (1, 1, 1)]).reason == "no_variation"


def graded_store(seed):
    """Three tasks, several attempts, three graders that score some, all or none of a trial, some of them twice."""
    chance = Random(seed)
    benchmark = chance.choice(("mcp_atlas", "desk"))
    store = Store(trials=PLANNED, benchmark=benchmark)
    totals = {"mcp_atlas": (1.0, 1.0, 1.0), "desk": (2.0, 1.0)}[benchmark]
    for task_id in "tuw":
        store.task(task_id, totals)
        for index in range(PLANNED):
            for attempt in range(1, chance.randint(1, 2) + 1):
                store.trial(
                    task_id,
                    "full",
                    index,
                    attempt=attempt,
                    scores=[chance.choice(SCORES) * total for total in totals],
                    ends=chance.choice(["finished"] * 5 + ["failed"]),
                )
                _grade(chance, store, task_id, store.streams[task_id, "full", index, "a"], totals)
    return store


def _grade(chance, store, task_id, stream, totals):
    for grading_id, grader in (("1", "h"), ("2", "h"), ("1", "j"), ("1", "g")):
        if chance.random() < 0.6:
            some = [chance.choice(SCORES) * total if chance.random() < 0.8 else None for total in totals]
            store.regrade(task_id, stream, some, f"{grading_id}-{grader}", grader)


@pytest.mark.thorough
@settings(max_examples=at_depth(15, 200))
@given(seed=st.integers(0, 2**32))
def test_the_table_is_read_as_the_reference_reads_it(seed):
    """Every value, and how many trials have one and have none, whatever was graded."""
    store = graded_store(seed)
    expected = slow.agreements_of(store.envelopes, store.live, store.benchmark)
    connection = connect(store.snapshot(), only={"grader_agreement"})
    try:
        query = "select grader, other_grader, measure, value, n_units, n_dropped, reason, low from grader_agreement"
        found = {row[:3]: row[3:] for row in connection.execute(query).fetchall()}
    finally:
        connection.close()
    assert found.keys() == expected.keys()
    for key, (value, n_units, n_dropped) in expected.items():
        row = found[key]
        assert _near(row[0], value), key
        assert row[1:3] == (n_units, n_dropped), key
        assert (row[3] is None) == (row[0] is not None and row[4] is not None), key


def _near(value, wanted):
    if value is None or wanted is None:
        return value is None and wanted is None
    return math.isclose(value, float(wanted), abs_tol=2e-6)


def test_the_p_value_of_tau_is_that_of_the_score_under_ties():
    """Two-sided, from the normal approximation with the variance of Kendall (1945), to six digits."""
    chance = np.random.default_rng(7)
    for n, steps in ((3, 5), (12, 2), (60, 4), (600, 3), (200, 10**6)):
        left, right = chance.integers(steps, size=(2, n))
        right = np.where(chance.random(n) < 0.4, left, right)
        score = sum(int(np.sum(np.sign((left[a] - left[:a]) * (right[a] - right[:a])))) for a in range(n))
        x, y = (np.unique(values, return_counts=True)[1].tolist() for values in (left, right))
        squares = [sum(t * (t - 1) * (2 * t + 5) for t in sizes) for sizes in ([n], x, y)]
        pairs = [sum(t * (t - 1) for t in sizes) for sizes in ([n], x, y)]
        triples = [sum(t * (t - 1) * (t - 2) for t in sizes) for sizes in ([n], x, y)]
        variance = (squares[0] - squares[1] - squares[2]) / 18
        variance += pairs[1] * pairs[2] / (2 * pairs[0]) + triples[1] * triples[2] / (9 * triples[0])
        p_value = math.erfc(abs(score) / math.sqrt(2 * variance))
        found = rank_agreement(left.tolist(), right.tolist())
        assert found.p_value == pytest.approx(p_value, rel=1e-5)
        judge = kendalltau(left, right, method="asymptotic")
        assert (found.tau, found.p_value) == pytest.approx((judge.statistic, judge.pvalue), rel=1e-5)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=30))
@settings(max_examples=at_depth(60, 300))
def test_tau_b_is_that_of_its_definition(pairs):
    """Concordant minus discordant pairs over the pairs without ties, counted one by one; ties are counted."""
    left, right = zip(*pairs, strict=True)
    found = rank_agreement(left, right)
    score = left_pairs = right_pairs = ties = 0
    for a in range(len(pairs)):
        for b in range(a + 1, len(pairs)):
            x, y = np.sign(left[a] - left[b]), np.sign(right[a] - right[b])
            score, left_pairs, right_pairs = score + x * y, left_pairs + abs(x), right_pairs + abs(y)
            ties += x == 0 or y == 0
    assert (found.n, found.n_ties) == (len(pairs), ties)
    if len(pairs) > 2 and left_pairs and right_pairs:
        assert found.tau == pytest.approx(score / (left_pairs * right_pairs) ** 0.5, abs=1e-6)
    else:
        assert (found.tau, found.p_value) == (None, None)


def test_tau_of_few_tasks_has_no_interval():
    """With 13 tasks the coverage study finds 0.92 at worst, so an interval exists from 15 on."""
    chance = np.random.default_rng(4)
    for count in (14, 15):
        left = chance.integers(0, 4, size=5 * count).astype(float)
        right = left + chance.integers(0, 3, size=5 * count)
        found = rank_correlation(left, right, np.arange(5 * count) % count, InferenceSettings(draws=DRAWS))
        assert found.value is not None
        assert found.n_clusters == count
        assert (found.low is None, found.reason) == ((True, "too_few_clusters") if count < 15 else (False, None))
