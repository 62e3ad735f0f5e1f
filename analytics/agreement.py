"""How far two graders agree beyond what chance would give: Cohen's kappa with linear weights, and its interval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analytics.statistics import Interval, Settings, resampled

if TYPE_CHECKING:
    from analytics.statistics import Floats

_SAME_DIGITS = 9
"""Shares of points that differ in a later place only are one category."""


def weighted_kappa(
    left: Sequence[float], right: Sequence[float], clusters: Sequence[int], settings: Settings
) -> tuple[float | None, Interval | None]:
    """Return kappa of two graders' scores of the same things, and its bootstrap interval over clusters.

    The weight of a disagreement is the distance of the two scores: kappa = 1 - observed / expected, where observed is
    the mean distance and expected is that of scores drawn apart from what each grader gave in all. For the categories
    0, 0.5 and 1 these are the usual linear weights.

    Source: J. Cohen, Weighted kappa, Psychological Bulletin 70 (1968).

    Args:
        left: Scores of one grader.
        right: Scores of the other, of the same things in the same order.
        clusters: Index of the cluster of each thing in the whole set, from 0.
        settings: The set of clusters and the way of resampling.

    Returns:
        The value is None where both graders gave one and the same score to everything, since chance agrees as well;
        the interval is None with fewer than two clusters.
    """
    import numpy as np

    one, other = np.round(left, _SAME_DIGITS), np.round(right, _SAME_DIGITS)
    index = np.asarray(clusters, dtype=np.int64)
    order = np.lexsort((other, one, index))  # the same sums whatever the order of the things
    one, other, index = one[order], other[order], index[order]
    steps = np.unique(np.concatenate([one, other]))
    count = settings.cluster_count
    things = np.bincount(index, minlength=count).astype(np.float64)
    apart = np.bincount(index, np.abs(one - other), count)

    def up_to(scores: "Floats") -> "Floats":
        """How many scores of each cluster are at most each step; without the last step, which all are."""
        found = [np.bincount(index, (scores <= step).astype(np.float64), count) for step in steps[:-1]]
        return np.asarray(found, dtype=np.float64).reshape(len(found), count)

    below_one, below_other, gaps = up_to(one), up_to(other), np.diff(steps)

    def kappa(weights: "Floats") -> "Floats":
        total = np.einsum("dc,c->d", weights, things)  # no BLAS: the same digits everywhere
        with np.errstate(invalid="ignore", divide="ignore"):
            share_one = np.einsum("dc,kc->kd", weights, below_one) / total
            share_other = np.einsum("dc,kc->kd", weights, below_other) / total
            observed = np.einsum("dc,c->d", weights, apart) / total
            by_chance = share_one * (1 - share_other) + share_other * (1 - share_one)
            expected = np.einsum("k,kd->d", gaps, by_chance)
            found: Floats = np.where(expected > 0, 1 - observed / expected, np.nan)
        return found

    value = float(kappa(np.ones((1, count)))[0])
    return (None if np.isnan(value) else value), resampled(kappa, np.unique(index), settings)
