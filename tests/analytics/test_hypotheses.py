"""The tests of hypotheses against enumeration and scipy."""

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analytics.hypotheses import rank_agreement, sign_flips
from tests.support.depth import at_depth

values = st.sampled_from([-1.0, -2 / 3, -0.5, -1 / 3, 0.0, 1 / 3, 0.5, 2 / 3, 1.0])


@given(st.lists(values, min_size=1, max_size=10), st.booleans())
@settings(max_examples=at_depth(60, 300))
def test_few_units_are_enumerated(differences, is_two_sided):
    """The p-value is the share of all sign choices that are at least as extreme, counted one by one."""
    found = sign_flips(differences, range(len(differences)), draws=10_000, seed=1, is_two_sided=is_two_sided)
    observed = sum(differences)
    sums = [
        sum(sign * value for sign, value in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    if is_two_sided:
        extreme = sum(abs(each) >= abs(observed) - 1e-7 for each in sums)
    else:
        extreme = sum(each >= observed - 1e-7 for each in sums)
    assert found == (extreme / len(sums), len(differences), "exact")


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_it_is_the_paired_permutation_test_of_scipy(alternative):
    """Exact p equals scipy's permutation test of paired samples, which exchanges the two arms."""
    chance = Random(3)
    left, right = [[chance.random() for _ in range(11)] for _ in range(2)]
    theirs = stats.permutation_test(
        (left, right),
        lambda x, y: np.mean(x) - np.mean(y),
        permutation_type="samples",
        alternative=alternative,
        n_resamples=10_000,
    )
    differences = [a - b for a, b in zip(left, right, strict=True)]
    ours = sign_flips(differences, range(11), draws=10_000, seed=1, is_two_sided=alternative == "two-sided")
    assert ours.method == "exact"
    assert ours.p_value == pytest.approx(theirs.pvalue)


def test_many_units_are_drawn_near_the_exact_value():
    """With too many sign choices to look at, 10,000 draws come within their own error of the exact p-value."""
    chance = Random(5)
    differences = [chance.choice([-1 / 3, 0.0, 1 / 3, 2 / 3]) for _ in range(16)]
    exact = sign_flips(differences, range(16), draws=2**16, seed=1, is_two_sided=False)
    drawn = sign_flips(differences, range(16), draws=10_000, seed=1, is_two_sided=False)
    assert (exact.method, drawn.method) == ("exact", "monte_carlo")
    assert drawn.p_value == pytest.approx(exact.p_value, abs=4 * (exact.p_value / 10_000) ** 0.5)
    assert drawn == sign_flips(differences, range(16), draws=10_000, seed=1, is_two_sided=False)


def test_a_cluster_keeps_one_sign():
    """Units of one cluster are flipped together: the test is that of the clusters' sums, whatever their order."""
    differences, clusters = [0.5, 0.25, -0.25, 1.0, 0.75], [7, 3, 7, 3, 9]
    sums = [0.25, 1.25, 0.75]
    free = sign_flips(sums, range(3), draws=100, seed=1, is_two_sided=True)
    assert sign_flips(differences, clusters, draws=100, seed=1, is_two_sided=True) == free
    assert sign_flips(differences[::-1], clusters[::-1], draws=100, seed=1, is_two_sided=True) == free


def test_under_no_effect_the_p_value_is_small_as_often_as_it_says():
    """Of 400 experiments without an effect about one in twenty has p <= 0.05, by enumeration and by draws."""
    chance = np.random.default_rng(11)
    for n in (10, 40):
        small = 0
        for trial in range(400):
            differences = chance.choice([-1.0, -1 / 3, 0.0, 1 / 3, 1.0], size=n)
            small += sign_flips(differences, range(n), draws=2_000, seed=trial, is_two_sided=True).p_value <= 0.05
        assert small <= 400 * 0.05 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_tau_and_its_p_value_are_those_of_scipy():
    """With many ties and without any, for few cells and for hundreds, both numbers to six digits."""
    chance = np.random.default_rng(7)
    for n, steps in ((3, 5), (12, 2), (60, 4), (600, 3), (200, 10**6)):
        left, right = chance.integers(steps, size=(2, n))
        right = np.where(chance.random(n) < 0.4, left, right)
        theirs = stats.kendalltau(left, right, method="asymptotic")
        ours = rank_agreement(left.tolist(), right.tolist())
        assert (ours.tau, ours.p_value) == (
            pytest.approx(theirs.statistic, abs=1e-6),
            pytest.approx(theirs.pvalue, rel=1e-5),
        )


def test_nothing_to_test_is_none():
    """No units give no p-value; one unit gives 1, or a half to one side."""
    assert sign_flips([], [], draws=100, seed=1, is_two_sided=True) is None
    assert sign_flips([0.3], [0], draws=100, seed=1, is_two_sided=True).p_value == 1.0
    assert sign_flips([0.3], [0], draws=100, seed=1, is_two_sided=False).p_value == 0.5


@given(st.lists(st.tuples(values, values), min_size=2, max_size=30))
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
