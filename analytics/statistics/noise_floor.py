"""The noise floor: how much a mean gain varies between repetitions on the same units if there is no effect.

Without an effect, both arms of a unit draw from the same distribution. The noise floor is the standard deviation of the
mean gain when the trials of both arms are resampled from their pool. It is computed exactly, not by simulation. It does
not cover variation between tasks; the interval of the gain does.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class PooledSuccesses(NamedTuple):
    """The trials of one unit: their number in each arm, and the successes in both arms together."""

    left: int
    right: int
    successes: int


class PooledVariance(NamedTuple):
    """The trials of one unit: their number in each arm, and the variance of progress over both arms together."""

    left: int
    right: int
    variance: float


def pass_noise_floor(units: Sequence[PooledSuccesses], k: int) -> float | None:
    """Compute the standard deviation of the mean gain in pass@k without an effect, None if there are no units."""
    return _of_mean([sum(_pass_variance(n, unit, k) for n in (unit.left, unit.right)) for unit in units])


def progress_noise_floor(units: Sequence[PooledVariance]) -> float | None:
    """Compute the standard deviation of the mean gain in progress without an effect, None if there are no units."""
    return _of_mean([unit.variance * (1 / unit.left + 1 / unit.right) for unit in units])


def _pass_variance(n: int, unit: PooledSuccesses, k: int) -> float:
    return _variance_of_pass_at_k(n, unit.successes / (unit.left + unit.right), k)


@lru_cache(maxsize=4096)
def _variance_of_pass_at_k(n: int, share: float, k: int) -> float:
    """Compute the variance of pass@k over n trials that each succeed with probability ``share``."""
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
