"""Randomization tests over whole clusters, the intervals that invert them, and joint tests of many claims.

A test of a difference d exchanges the arms of whole clusters: paired clusters change their sign, clusters of two
separate arms change their place. An exchange is extreme at d if its statistic is at least as far from 0 as the observed
one. The interval holds every d with p >= 1 - confidence, so p-value and interval cannot contradict each other. With
sign flips, every exchange stops being extreme at a known distance of d from the estimate, and the interval ends at two
order statistics of these points.

Source: R. A. Fisher, The design of experiments (1935), 21; J. A. Hartigan, Using subsample values as typical values,
JASA 64 (1969), for the points of the sign flips, which are means of subsets of the clusters. If exchanges are sampled,
the observed one counts as one of them: B. Phipson and G. K. Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010).
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_STEPS = 1e9
"""Sums of clusters are rounded to multiples of 1 / _STEPS, so that ties are the same on every machine."""

_SAME = 1e-9
"""Statistics with a smaller relative difference are ties."""

_MOST_SIGNS = 4_000_000
"""How many signs are drawn or summed at once, so that 10,000 tasks need little memory."""

_FARTHEST = 1e6
_HALVINGS = 20


class Draws(NamedTuple):
    """Evaluate all exchanges if there are at most ``most``, else ``most`` exchanges drawn from the seed."""

    most: int
    seed: int


class Inversion(NamedTuple):
    """The p-values of no difference, two-sided and against values above 0, and the interval.

    The bounds are None if there are too few exchanges to reject any difference.
    """

    p_value: float
    p_greater: float
    low: float | None
    high: float | None
    is_positive: bool


class _Choices(NamedTuple):
    """The statistic of each exchange except the observed one: ``shift`` - d * ``slope``. The observed is 1 - d * 1.

    Both are in units of the observed sums. ``total`` counts the observed one, too.
    """

    shift: "Floats"
    slope: "Floats"
    total: int


def sign_flips(above: "Floats", below: "Floats", confidence: float, draws: Draws) -> Inversion:
    """Test the mean of paired differences by flipping the signs of whole clusters."""
    import numpy as np

    steps = np.rint(above * _STEPS)
    count = len(steps)
    if 2 ** (count - 1) <= draws.most:  # a choice and its mirror image are equally extreme: half of them are enough
        shift, slope = _all_flips(steps), _all_flips(below)
        shift, slope, total = shift[1:], slope[1:], 2 ** (count - 1)
    else:
        signs, signs_summed = _drawn_signs(count, draws.most, draws.seed)
        shift = _summed(signs, steps)  # sums of whole numbers: exact in any order
        slope = signs_summed * below[0] if np.all(below == below[0]) else _summed(signs, below)
        total = 1 + draws.most
    observed, tolerance = float(steps.sum()), float(count)
    mirrored = np.count_nonzero(-shift >= observed - tolerance) if total == 2 ** (count - 1) else 0
    found = _inverted(observed, float(below.sum()), _Choices(shift, slope, total), tolerance, confidence)
    if total == 2 ** (count - 1):
        itself = int(-observed >= observed - tolerance)
        found = found._replace(p_greater=(found.p_greater * total + mirrored + itself) / 2**count)
    return _scaled(found, 1 / _STEPS)


class Columns(NamedTuple):
    """What a joint test knows of each claim.

    Attributes:
        sums: The sum of each cluster (row) and claim (column), 0 for a cluster without the claim.
        lead: What is added to the t of a claim. Claims with a lead over others have more of the level.
        most: The largest t that a claim may have, infinite without a limit.
        is_one_sided: Whether only sums above 0 speak for a claim.
    """

    sums: "Floats"
    lead: "Floats"
    most: "Floats"
    is_one_sided: "NDArray[np.bool_]"


def step_down(claims: Columns, draws: Draws) -> "Floats":
    """Return the p-value of each of several means of 0, corrected for all of them, by joint flips of whole clusters.

    A flip changes the sign of a cluster in all columns, so it keeps how they depend on each other. A p-value is the
    share of flips in which the largest statistic of this column and all columns with smaller ones reaches the observed
    one. The statistic is t and the lead of the claim. t is the sum of a column over the root of its sum of squares,
    which no flip changes.

    Source: P. H. Westfall and S. S. Young, Resampling-based multiple testing (1993), 2.6; J. P. Romano and M. Wolf,
    JASA 100 (2005), for the steps; E. Spjøtvoll, Annals of Mathematical Statistics 43 (1972), for leads: with effects
    of one size, sums of t and log weights see most at one level.
    """
    import numpy as np

    steps = np.rint(claims.sums[np.lexsort(claims.sums.T)] * _STEPS)
    scale = np.sqrt((steps**2).sum(axis=0))
    scale[scale == 0] = 1.0
    flips, n_observed = _flips(len(steps), draws)

    def t(totals: "Floats") -> "Floats":
        chosen: Floats = np.where(claims.is_one_sided, totals, np.abs(totals)) / scale
        return chosen

    observed = np.minimum(t(steps.sum(axis=0)), claims.most) + claims.lead
    order = np.argsort(observed, kind="stable")
    found = t(_summed(flips, steps)) + claims.lead  # sums of whole numbers: exact in any order
    extreme = np.maximum.accumulate(found[:, order], axis=1) >= observed[order] - _SAME
    shares = (n_observed + np.count_nonzero(extreme, axis=0)) / (n_observed + len(flips))
    p_values = np.empty(len(order))
    p_values[order[::-1]] = np.maximum.accumulate(shares[::-1])
    return p_values


def simultaneous_quantile(residuals: "Floats", confidence: float, draws: Draws) -> float:
    """Return how many standard errors a band needs to hold several means at once, by joint flips of whole clusters.

    It is a quantile of the largest of the studentised means of the flipped residuals of the clusters (rows).

    Source: V. Chernozhukov, D. Chetverikov and K. Kato, Annals of Statistics 41 (2013), the multiplier bootstrap;
    E. Mammen, Annals of Statistics 21 (1993), and A. C. Cameron, J. B. Gelbach and D. L. Miller, Review of Economics
    and Statistics 90 (2008), for signs as its multipliers.
    """
    import numpy as np

    steps = np.rint(residuals[np.lexsort(residuals.T)] * _STEPS)
    count, squares = len(steps), (steps**2).sum(axis=0)
    flips, _ = _flips(count, draws)
    totals = _summed(flips, steps)
    variances = np.maximum(squares - totals**2 / count, _SAME * squares) * count / (count - 1)
    t = np.abs(totals) / np.sqrt(np.where(squares > 0, variances, 1.0))
    return float(np.quantile(t.max(axis=1), confidence, method="higher"))


def _summed(signs: "NDArray[np.int8]", values: "Floats") -> "Floats":
    """Return the sums of signed values, one row for each row of signs."""
    import numpy as np

    rows = max(1, _MOST_SIGNS // signs.shape[1])
    parts = [signs[start : start + rows].astype(np.float64) @ values for start in range(0, len(signs), rows)]
    return np.concatenate(parts)


def _flips(count: int, draws: Draws) -> tuple["NDArray[np.int8]", int]:
    """Return signs of clusters, one row for each flip, and how often the observed signs count beside them."""
    import numpy as np

    if 2**count > draws.most:
        return _drawn_signs(count, draws.most, draws.seed)[0], 1
    bits = np.arange(2**count)[:, None] >> np.arange(count) & 1
    return (1 - 2 * bits).astype(np.int8), 0


def permuted(
    one: tuple["Floats", "Floats"], other: tuple["Floats", "Floats"], confidence: float, draws: Draws
) -> Inversion:
    """Test the difference between the means of two arms of different clusters by exchanging whole clusters.

    The statistic is the difference over its standard error (linearised, separate for each arm), because the test would
    otherwise miss its level if the arms differ in size and spread. The interval is searched for from the estimate
    outwards. Each arm needs two clusters.

    Source: A. Janssen, Studentized permutation tests for non-i.i.d. hypotheses and the generalized Behrens-Fisher
    problem, Statistics and Probability Letters 36 (1997); E. Chung and J. P. Romano, Annals of Statistics 41 (2013).
    """
    import numpy as np

    estimate = float(one[0].sum() / one[1].sum() - other[0].sum() / other[1].sum())
    middle = float(other[0].sum() / other[1].sum())  # both arms are moved there: a shift is measured from the estimate
    above = np.concatenate((one[0] - (middle + estimate) * one[1], other[0] - middle * other[1]))
    below = np.concatenate((one[1], other[1]))
    size, count = len(one[0]), len(above)
    moved = np.where(np.arange(count) < size, below, 0.0)  # what a shift of the first arm by 1 adds to the sums
    sums = np.stack((above, below, above**2, above * below, below**2, moved, above * moved, moved**2))
    chosen: Floats = np.vstack(((np.arange(count) < size)[None, :].astype(np.float64), _chosen(size, count, draws)))
    inside: Floats = np.einsum("nc,kc->kn", chosen, sums, optimize=False)  # no BLAS: the same digits on every machine
    outside = sums.sum(axis=1)[:, None] - inside
    mean, mean_slope, *parts = (
        part - minus if place < 2 else part + minus
        for place, (part, minus) in enumerate(
            zip(_expanded(inside, size), _expanded(outside, count - size), strict=True)
        )
    )

    def statistic(difference: float) -> tuple["Floats", "Floats"]:
        shift = difference - estimate
        distance = mean - shift * mean_slope
        distance[np.abs(distance) <= count / _STEPS] = 0.0
        variance = parts[0] + shift * (parts[1] + shift * parts[2])
        terms = parts[3] + shift * (parts[4] + shift * parts[5])
        variance[variance <= _SAME * terms] = 0.0  # treat rounding residue as 0
        return distance, variance

    def p_value(difference: float) -> float:
        distance, variance = statistic(difference)
        squares = distance * distance
        is_extreme = squares * variance[0] >= (1 - 2 * _SAME) * squares[0] * variance
        return float(np.mean(is_extreme & ((squares > 0) | (squares[0] == 0))))

    distance, variance = statistic(0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(distance == 0, 0.0, distance / np.sqrt(variance))
    error = float(variance[0]) ** 0.5 or max(1e-3, abs(estimate))
    p_zero, level = p_value(0.0), round(1 - confidence, 12)
    low, high = (_edge(p_value, estimate, side * error / 2, 0.0 if p_zero < level else None, level) for side in (-1, 1))
    if low is None or high is None:
        low = high = None
    least = t[0] - abs(t[0]) * _SAME if math.isfinite(t[0]) else t[0]
    return Inversion(p_zero, float(np.mean(t >= least)), low, high, estimate > 0)


def _expanded(sums: "Floats", count: int) -> tuple["Floats", ...]:
    """Expand the mean of an arm in every exchange, and its linearised variance, in powers of the first arm's shift."""
    above, below, squares, products, weights, moved, crossed, moved_squares = sums
    mean, slope, scale = above / below, moved / below, count / (count - 1) / below**2
    return (
        mean,
        slope,
        scale * (squares - 2 * mean * products + mean * mean * weights),
        scale * 2 * (mean * moved_squares + slope * products - crossed - mean * slope * weights),
        scale * (moved_squares * (1 - 2 * slope) + slope * slope * weights),
        scale * (squares + mean * mean * weights),
        scale * -2 * mean * slope * weights,
        scale * (1 + slope * slope) * weights,
    )


def _edge(
    p_value: Callable[[float], float], estimate: float, step: float, rejected: float | None, level: float
) -> float | None:
    """Search from the estimate for the end of the range of differences that are not rejected."""
    inside, reach = estimate, _FARTHEST * abs(step)
    if rejected is None and (0.0 - estimate) * step > 0:
        inside = 0.0
    outside = inside + step
    if rejected is not None and (rejected - estimate) * step > 0:
        outside = rejected
    while p_value(outside) >= level:
        inside, step = outside, 2 * step
        outside = inside + step
        if abs(step) > reach:
            return None
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if p_value(middle) >= level else (inside, middle)
    return inside


def _inverted(observed: float, weight: float, choices: _Choices, tolerance: float, confidence: float) -> Inversion:
    """Compute p-values at 0 and the interval from the points up to which each exchange is extreme."""
    import numpy as np

    sums = observed + choices.shift, observed - choices.shift  # of the clusters that stay, and of those that change
    weights = weight + choices.slope, weight - choices.slope
    least = 1e-9 * weight
    with np.errstate(invalid="ignore", divide="ignore"):
        kept, changed = (
            np.where(below > least, above / below, np.nan) for above, below in zip(sums, weights, strict=True)
        )
    is_always = np.isnan(kept) | np.isnan(changed)
    upper = np.where(is_always, np.inf, np.maximum(kept, changed))
    lower = np.where(is_always, -np.inf, np.minimum(kept, changed))
    if abs(observed) <= tolerance:
        n_extreme = choices.total
    else:
        n_extreme = 1 + int(np.count_nonzero(np.abs(choices.shift) >= abs(observed) - tolerance))
    n_greater = 1 + int(np.count_nonzero(choices.shift >= observed - tolerance))
    rank = math.ceil(round((1 - confidence) * choices.total, 9)) - 1
    low = high = None
    if rank >= 1:
        low = float(np.partition(lower, rank - 1)[rank - 1])
        high = float(np.partition(upper, len(upper) - rank)[len(upper) - rank])
        if not (math.isfinite(low) and math.isfinite(high)):
            low = high = None
    return Inversion(n_extreme / choices.total, n_greater / choices.total, low, high, observed > 0)


def _scaled(found: Inversion, factor: float) -> Inversion:
    if found.low is None or found.high is None:
        return found
    return found._replace(low=found.low * factor, high=found.high * factor)


def _all_flips(values: "Floats") -> "Floats":
    """Return the total for every combination of signs with a positive first sign. The first total flips no sign."""
    import numpy as np

    totals = values[:1]
    for value in values[1:]:
        totals = np.concatenate((totals + value, totals - value))
    return totals


@lru_cache(maxsize=16)
def _drawn_signs(count: int, draws: int, seed: int) -> tuple["NDArray[np.int8]", "Floats"]:
    import numpy as np

    rng, signs = np.random.default_rng([seed, count]), np.empty((draws, count), np.int8)
    rows = max(1, _MOST_SIGNS // count)
    for start in range(0, draws, rows):
        part = signs[start : start + rows]
        part[:] = 2 * rng.integers(2, size=part.shape) - 1
    summed: Floats = signs.sum(axis=1, dtype=np.float64)
    return signs, summed


@lru_cache(maxsize=16)
def _chosen(size: int, count: int, draws: Draws) -> "Floats":
    """Return which clusters are in the first arm, one row for each exchange except the observed one."""
    import numpy as np

    if math.comb(count, size) <= draws.most:
        places = np.array(list(combinations(range(count), size))[1:], dtype=np.int64).reshape(-1, size)
    else:
        keys = np.random.default_rng([draws.seed, count, size]).random((draws.most, count))
        places = np.argsort(keys, axis=1)[:, :size]
    chosen = np.zeros((len(places), count))
    chosen[np.arange(len(places))[:, None], places] = 1.0
    return chosen


# The noise floor: how much a mean gain varies between repetitions on the same units if there is no effect. Both arms of
# a unit then draw from the same distribution, so it is the standard deviation of the mean gain when the trials of both
# arms are drawn again from their pool, computed exactly. Variation between tasks is the interval's.
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
