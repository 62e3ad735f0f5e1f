"""The noise floor against simulation, the trials needed against statsmodels."""

from math import comb

import numpy as np
import pytest
from statsmodels.stats.power import NormalIndPower

from analytics.power import (
    MOST_TRIALS,
    Pool,
    Spread,
    pass_noise_floor,
    pass_trials_needed,
    progress_noise_floor,
    progress_trials_needed,
)

TEST = {"level": 0.05, "power": 0.8}


def test_the_noise_of_pass_at_k_is_that_of_resampled_trials():
    """The worked-out deviation is that of 40,000 experiments whose arms are drawn from the pooled trials."""
    chance = np.random.default_rng(1)
    units = [Pool(3, 3, 2), Pool(3, 4, 1), Pool(5, 3, 0), Pool(4, 4, 5)]

    def drawn(n, share):
        failures = n - chance.binomial(n, share, size=40_000)
        return 1 - np.array([comb(each, 3) for each in range(n + 1)])[failures] / comb(n, 3)

    gains = [
        drawn(u.left, u.successes / (u.left + u.right)) - drawn(u.right, u.successes / (u.left + u.right))
        for u in units
    ]
    assert pass_noise_floor(units, 3) == pytest.approx(np.mean(gains, axis=0).std(), rel=0.02)


def test_the_noise_of_progress_is_that_of_resampled_trials():
    """The same for the mean progress of trials, drawn with replacement from the pool."""
    chance = np.random.default_rng(2)
    pools = [np.array([0.0, 0.5, 1.0, 1.0, 0.25, 0.5]), np.array([1.0, 1.0, 0.75, 0.0, 0.5, 0.5])]
    units = [Spread(3, 3, pool.var()) for pool in pools]
    gains = [
        chance.choice(pool, size=(40_000, 3)).mean(axis=1) - chance.choice(pool, size=(40_000, 3)).mean(axis=1)
        for pool in pools
    ]
    assert progress_noise_floor(units) == pytest.approx(np.mean(gains, axis=0).std(), rel=0.02)


def test_trials_needed_is_the_normal_approximation():
    """For one unit of trials that are 0 or 1 it is the sample size of statsmodels; 50 units need a 50th."""
    theirs = NormalIndPower().solve_power(0.2 / 0.5, alpha=0.05, power=0.8)
    one, fifty = [Spread(3, 3, 0.25)], [Spread(3, 3, 0.25)] * 50
    assert progress_trials_needed(one, 0.2, **TEST) == int(np.ceil(theirs))
    assert progress_trials_needed(fifty, 0.2, **TEST) == int(np.ceil(theirs / 50))
    assert pass_trials_needed([Pool(3, 3, 3)], 1, 0.2, **TEST) == int(np.ceil(theirs))


def test_with_the_trials_needed_the_gain_is_reached():
    """The noise with so many trials in each arm is small enough, with one fewer it is not."""
    units = [Pool(3, 3, 2), Pool(3, 3, 1), Pool(3, 3, 4)] * 8
    needed = pass_trials_needed(units, 3, 0.1, **TEST)
    reach = 1.959964 + 0.841621

    def floor(n):
        return pass_noise_floor([Pool(n, n, u.successes * n / 3) for u in units], 3)

    assert reach * floor(needed) <= 0.1 < reach * floor(needed - 1)
    assert pass_trials_needed(units, 3, 0.2, **TEST) < needed


def test_what_cannot_be_said_is_none():
    """Without units, without variation, or where it takes too many trials."""
    assert pass_noise_floor([], 3) is None
    assert progress_noise_floor([]) is None
    assert pass_noise_floor([Pool(3, 3, 6)], 3) == 0
    assert pass_trials_needed([Pool(3, 3, 6)], 3, 0.1, **TEST) is None
    assert progress_trials_needed([], 0.1, **TEST) is None
    assert progress_trials_needed([Spread(3, 3, 0.25)], 0.005, **TEST) is None
    assert progress_trials_needed([Spread(3, 3, 0.25)], 0.1, **TEST) <= MOST_TRIALS
