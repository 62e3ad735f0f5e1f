"""The bootstrap over clusters: studentised if a variance is available, else the expanded percentile interval.

Clusters are drawn with replacement, each with all of its units. All cells with the same number of clusters share one
weight matrix that is drawn once from the seed: row d says how often each cluster is in draw d.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Statistic = Callable[[Floats], Floats]

_DIGITS = 6
_LEAST_VARIANCE = 1e-12
"""A share of the squared estimate. A smaller variance may be rounding error, which is about 1e-16 here."""


def studentised(above: "Floats", below: "Floats", draws: int, seed: int) -> tuple[float, "Floats"] | None:
    """Draw sum(above) / sum(below), each draw minus the estimate and divided by its own linearised standard error.

    Source: B. Efron and R. J. Tibshirani, An introduction to the bootstrap (1993), 12.5.
    """
    import numpy as np

    count = len(above)
    columns = np.stack((above, below, above * above, above * below, below * below))

    def estimated(weights: "Floats") -> tuple["Floats", "Floats"]:
        sums = np.einsum("dc,kc->kd", weights, columns)  # no BLAS: the same digits on every machine
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = sums[0] / sums[1]
            spread = sums[2] - 2 * ratio * sums[3] + ratio * ratio * sums[4]
            variance = count / (count - 1) * np.maximum(spread, 0.0) / sums[1] ** 2
        return ratio, variance

    ratio, variance = (float(each[0]) for each in estimated(np.ones((1, count))))
    least = _LEAST_VARIANCE * max(1.0, ratio * ratio)
    if not variance > least:
        return None
    drawn, variances = estimated(cluster_weights(count, draws, seed))
    is_usable = np.isfinite(drawn) & (variances > least)
    if not is_usable.any():
        return None
    return variance**0.5, (drawn[is_usable] - ratio) / np.sqrt(variances[is_usable])


def expanded_percentile(
    statistic: "Statistic", count: int, effective: float, confidence: float, draws: int, seed: int
) -> tuple[float, float, float] | None:
    """Compute the percentile interval with tails that correct for few clusters.

    With few clusters the plain percentile interval is too narrow, because the spread of the draws is too small by the
    factor sqrt((G - 1) / G), and because its tails are normal instead of t. The tails used here turn the interval of a
    mean of normal values into the t interval.

    Source: T. C. Hesterberg, What teachers should know about the bootstrap, The American Statistician 69 (2015), 4.2.
    """
    import numpy as np
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    drawn = statistic(cluster_weights(count, draws, seed))
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return None
    stretch, degrees = (count / (count - 1)) ** 0.5, max(1.0, effective - 1)
    tail = float(ndtr(stdtrit(degrees, (1 - confidence) / 2) * stretch))
    low, high = (round(float(bound), _DIGITS) for bound in np.quantile(drawn, [tail, 1 - tail]))
    if low == high:
        return None
    ordered = np.sort(drawn)
    tail_at_0 = min(_share_up_to_0(ordered), _share_up_to_0(-ordered[::-1]))
    p_value = min(1.0, 2 * float(stdtr(degrees, ndtri(tail_at_0) / stretch)))
    is_excluded = low > 0 or high < 0
    if is_excluded != (p_value < 1 - confidence):  # 0 lies within rounding of a bound
        p_value = np.nextafter(1 - confidence, 0) if is_excluded else 1 - confidence
    return low, high, float(p_value)


def _share_up_to_0(ordered: "Floats") -> float:
    """Return the share at which the interpolated quantile of ordered draws is 0."""
    import numpy as np

    last, shares = len(ordered) - 1, np.linspace(0.0, 1.0, len(ordered))
    if ordered[0] > 0:
        return 0.5 / len(ordered)
    if ordered[-1] <= 0:
        return 1.0 - 0.5 / len(ordered)
    place = min(last - 1, int(np.searchsorted(ordered, 0.0, side="right")) - 1)
    return max(0.5 / len(ordered), float(np.interp(0.0, ordered[place : place + 2], shares[place : place + 2])))


@lru_cache(maxsize=16)
def cluster_weights(count: int, draws: int, seed: int) -> "Floats":
    """Draw the shared weights, shape (draws, clusters). Each row says how often each cluster was drawn."""
    import numpy as np

    picks = np.random.default_rng([seed, count]).integers(count, size=(draws, count))
    shifted = picks + np.arange(draws)[:, None] * count
    weights: Floats = np.bincount(shifted.ravel(), minlength=draws * count).reshape(draws, count).astype(np.float64)
    return weights
