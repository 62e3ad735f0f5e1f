"""The noise floor: how much a mean gain varies between repetitions on the same units if there is no effect.

Without an effect, both arms of a unit draw from the same distribution. The noise floor is the standard deviation of the
mean gain when the trials of both arms are resampled from their pool. It is computed exactly, not by simulation. It does
not cover variation between tasks; the interval of the gain does.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

_Column = Sequence[float] | None
"""A number of each unit, None for no units: the trials in each arm, and what both arms have together."""


def pass_noise_floor(left: _Column, right: _Column, successes: _Column, k: int) -> float | None:
    """Compute the standard deviation of the mean gain in pass@k without an effect, None if there are no units."""
    units = zip(left or (), right or (), successes or (), strict=True)
    shares = [(one, other, found / (one + other)) for one, other, found in units]
    return _of_mean([sum(_variance_of_pass_at_k(int(n), share, k) for n in arms) for *arms, share in shares])


def progress_noise_floor(left: _Column, right: _Column, variances: _Column) -> float | None:
    """Compute the standard deviation of the mean gain in progress without an effect, None if there are no units."""
    units = zip(left or (), right or (), variances or (), strict=True)
    return _of_mean([variance * (1 / one + 1 / other) for one, other, variance in units])


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
