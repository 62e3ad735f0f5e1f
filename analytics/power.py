"""What an experiment of a size can see: the noise of a mean gain without any effect, and the trials that a gain needs.

Without an effect both arms of a unit draw from the same trials. The noise floor is the standard deviation that the mean
gain has when the trials of both arms are resampled from the pool of both; it is worked out, not drawn.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

MOST_TRIALS = 1_000
"""More trials in each arm than this are not called a plan."""


class Pool(NamedTuple):
    """The trials of both arms of a unit: how many in each arm, and of all the successes."""

    left: int
    right: int
    successes: int


class Spread(NamedTuple):
    """The trials of both arms of a unit: how many in each arm, and the variance of their progress over all."""

    left: int
    right: int
    variance: float


def pass_noise_floor(units: Sequence[Pool], k: int) -> float | None:
    """Return the standard deviation of the mean gain in pass@k without an effect; None without units.

    Args:
        units: One per unit with a gain, so with at least k trials in each arm.
        k: Of pass@k.
    """
    return _of_mean([sum(_pass_variance(n, unit, k) for n in (unit.left, unit.right)) for unit in units])


def progress_noise_floor(units: Sequence[Spread]) -> float | None:
    """Return the standard deviation of the mean gain in checkpoint progress without an effect; None without units."""
    return _of_mean([unit.variance * (1 / unit.left + 1 / unit.right) for unit in units])


def pass_trials_needed(units: Sequence[Pool], k: int, gain: float, *, level: float, power: float) -> int | None:
    """Return how many trials in each arm see a gain in pass@k over these units; see :func:`progress_trials_needed`."""
    return _least(lambda n: sum(2 * _pass_variance(n, unit, k) for unit in units), len(units), k, gain, level, power)


def progress_trials_needed(units: Sequence[Spread], gain: float, *, level: float, power: float) -> int | None:
    """Return how many trials in each arm see a gain in checkpoint progress over these units.

    Args:
        units: One per unit with a gain.
        gain: The true mean gain, above 0, as a fraction.
        level: Of a two-sided test, as 0.05.
        power: The chance that the test sees it, as 0.8.

    Returns:
        None without units, where no trial of any unit differed from another, or where it takes more than
        ``MOST_TRIALS``.

    Source: the normal approximation, J. Cohen, Statistical power analysis for the behavioral sciences (1988).
    """
    total = sum(2 * unit.variance for unit in units)
    return _least(lambda n: total / n, len(units), 1, gain, level, power)


def _least(
    variance_at: Callable[[int], float], n_units: int, fewest: int, gain: float, level: float, power: float
) -> int | None:
    """The smallest number of trials whose noise is small enough, by halving: noise falls with trials."""
    normal = NormalDist()
    reach = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)
    wanted = (gain * n_units / reach) ** 2
    if not n_units or variance_at(fewest) == 0 or variance_at(MOST_TRIALS) > wanted:
        return None
    low, high = fewest, MOST_TRIALS
    while low < high:
        middle = (low + high) // 2
        if variance_at(middle) <= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def _pass_variance(n: int, unit: Pool, k: int) -> float:
    return _variance_of_pass_at_k(n, unit.successes / (unit.left + unit.right), k)


@lru_cache(maxsize=4096)
def _variance_of_pass_at_k(n: int, share: float, k: int) -> float:
    """The variance of pass@k over n trials that succeed with a probability each."""
    import numpy as np

    if share in (0, 1):
        return 0.0
    successes = np.arange(n + 1)
    log_factorials = np.concatenate(([0.0], np.cumsum(np.log(successes[1:]))))
    log_chances = log_factorials[n] - log_factorials - log_factorials[::-1]
    chances = np.exp(log_chances + successes * math.log(share) + (n - successes) * math.log(1 - share))
    steps = np.arange(k)
    values = 1 - np.prod(np.maximum(n - successes[:, None] - steps, 0) / (n - steps), axis=1)
    return float(np.sum(chances * (values - np.sum(chances * values)) ** 2))


def _of_mean(variances: Sequence[float]) -> float | None:
    return math.sqrt(math.fsum(variances)) / len(variances) if variances else None
