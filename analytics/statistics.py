"""Intervals: Wilson for plain proportions, the cluster bootstrap for everything else (docs/metrics.md 5).

Every bootstrap of a set of clusters uses one weight matrix, drawn once from the seed: row d says how often each
cluster was drawn in draw d. So two cells of a set are resampled together, and their digits do not depend on the order
in which they are computed.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Statistic = Callable[[Floats], Floats]

_DIGITS = 6
"""Bounds are rounded so that the last bits of a sum, which differ between machines, are never seen."""


class Interval(NamedTuple):
    """A confidence interval and how it was made: ``wilson``, ``percentile`` or ``bca``."""

    low: float
    high: float
    method: str


class Settings(NamedTuple):
    """How a bootstrap is done; ``cluster_count`` is the size of the whole set, not of the cell."""

    cluster_count: int
    draws: int
    seed: int
    confidence: float
    method: str


def wilson(successes: int, count: int, confidence: float) -> Interval | None:
    """Return the Wilson score interval of a proportion; None without units.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if count == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return Interval(round(max(0.0, centre - half), _DIGITS), round(min(1.0, centre + half), _DIGITS), "wilson")


def ratio_interval(
    numerators: Sequence[float], denominators: Sequence[float], clusters: Sequence[int], settings: Settings
) -> Interval | None:
    """Return the bootstrap interval of sum(numerators) / sum(denominators); a mean has denominators of 1.

    Args:
        numerators: One value per unit.
        denominators: One value per unit, not negative.
        clusters: Index of each unit's cluster in the whole set, from 0.
        settings: The set of clusters and the way of resampling.

    Returns:
        None with fewer than two clusters, or when the ratio is undefined.
    """
    import numpy as np

    index = np.asarray(clusters, dtype=np.int64)
    numerator, denominator = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    order = np.lexsort((denominator, numerator, index))  # the same sums whatever the order of the units
    above = np.bincount(index[order], numerator[order], settings.cluster_count)
    below = np.bincount(index[order], denominator[order], settings.cluster_count)

    def ratio(weights: "Floats") -> "Floats":
        total = np.einsum("dc,c->d", weights, below)  # no BLAS: the same digits everywhere, and no threads
        undefined: Floats = np.full(len(total), np.nan)
        shares: Floats = np.divide(np.einsum("dc,c->d", weights, above), total, out=undefined, where=total > 0)
        return shares

    return resampled(ratio, np.unique(index), settings)


def harmonic_interval(
    one: tuple[Sequence[float], Sequence[float]],
    other: tuple[Sequence[float], Sequence[float]],
    clusters: Sequence[int],
    settings: Settings,
) -> Interval | None:
    """Return the bootstrap interval of the harmonic mean of two ratios of sums: F1 of precision and recall.

    Both ratios see the same draws, so that what they share is not counted as noise; 0 where both ratios are 0.

    Args:
        one: Numerators and denominators, one pair per unit.
        other: Those of the other ratio.
        clusters: Index of each unit's cluster in the whole set, from 0.
        settings: The set of clusters and the way of resampling.

    Returns:
        None with fewer than two clusters, or where a ratio is undefined in every draw.
    """
    import numpy as np

    index = np.asarray(clusters, dtype=np.int64)
    columns = np.asarray([*one, *other], dtype=np.float64)
    order = np.lexsort((*columns, index))
    sums = [np.bincount(index[order], column[order], settings.cluster_count) for column in columns]

    def harmonic(weights: "Floats") -> "Floats":
        found, asked, covered, wanted = (np.einsum("dc,c->d", weights, each) for each in sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            precision, recall = found / asked, covered / wanted
            mean: Floats = 2 * precision * recall / (precision + recall)
        return np.where(precision + recall == 0, 0.0, mean)

    return resampled(harmonic, np.unique(index), settings)


def median_interval(values: Sequence[float], clusters: Sequence[int], settings: Settings) -> Interval | None:
    """Return the bootstrap interval of the median; the mean of the two middle values where their number is even.

    Args:
        values: One value per unit.
        clusters: Index of each unit's cluster in the whole set, from 0.
        settings: The set of clusters and the way of resampling.

    Returns:
        None with fewer than two clusters.
    """
    import numpy as np

    order = np.argsort(np.asarray(values, dtype=np.float64), kind="stable")
    ordered = np.asarray(values, dtype=np.float64)[order]
    index = np.asarray(clusters, dtype=np.int64)

    def median(weights: "Floats") -> "Floats":
        running = np.cumsum(weights[:, index[order]], axis=1)
        total = running[:, -1]
        lower = np.argmax(running > ((total - 1) // 2)[:, None], axis=1)
        upper = np.argmax(running > (total // 2)[:, None], axis=1)
        middle = (ordered[lower] + ordered[upper]) / 2
        return np.where(total > 0, middle, np.nan)

    return resampled(median, np.unique(index), settings)


@lru_cache(maxsize=8)
def cluster_weights(cluster_count: int, draws: int, seed: int) -> "Floats":
    """Return the shared weights, shape (draws, cluster_count): each row draws the clusters with replacement."""
    import numpy as np

    picks = np.random.default_rng(seed).integers(cluster_count, size=(draws, cluster_count))
    shifted = picks + np.arange(draws)[:, None] * cluster_count
    counts = np.bincount(shifted.ravel(), minlength=draws * cluster_count)
    weights: Floats = counts.reshape(draws, cluster_count).astype(np.float64)
    return weights


def resampled(statistic: "Statistic", present: "NDArray[np.int64]", settings: Settings) -> Interval | None:
    """Return the bootstrap interval of a statistic; draws in which it is undefined do not count.

    Args:
        statistic: From weights of the clusters, a row for each draw, to a value for each draw; NaN is undefined.
        present: The clusters that the cell has.
        settings: The set of clusters and the way of resampling.

    Returns:
        None with fewer than two clusters, or where every draw is undefined.
    """
    import numpy as np

    if len(present) < 2:
        return None
    drawn = statistic(cluster_weights(settings.cluster_count, settings.draws, settings.seed))
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return None
    tail = (1 - settings.confidence) / 2
    levels = [tail, 1 - tail]
    if settings.method == "bca":
        levels = _bca_levels(statistic, drawn, present, settings.cluster_count, levels)
    low, high = np.quantile(drawn, levels)
    return Interval(round(float(low), _DIGITS), round(float(high), _DIGITS), settings.method)


def _bca_levels(
    statistic: "Statistic", drawn: "Floats", present: "NDArray[np.int64]", cluster_count: int, levels: list[float]
) -> list[float]:
    """Return the levels corrected for bias and acceleration.

    Source: B. Efron, Better bootstrap confidence intervals, JASA 82 (1987), with the jackknife over clusters.
    """
    import numpy as np

    everything = np.ones((1, cluster_count))
    estimate = float(statistic(everything)[0])
    below = float(np.mean(drawn < estimate) + np.mean(drawn == estimate) / 2)
    without = np.ones((len(present), cluster_count))
    without[np.arange(len(present)), present] = 0.0
    left_out = statistic(without)
    spread = np.nanmean(left_out) - left_out
    scale = float(np.nansum(spread**2)) ** 1.5
    if not 0 < below < 1 or scale == 0:
        return levels
    normal = NormalDist()
    bias = normal.inv_cdf(below)
    acceleration = float(np.nansum(spread**3)) / (6 * scale)
    shifted = [bias + normal.inv_cdf(level) for level in levels]
    return [normal.cdf(bias + shift / (1 - acceleration * shift)) for shift in shifted]
