"""Agreement with intervals: weighted kappa of two graders, Kendall's tau-b of two rankings, F1 of two ratios.

Intervals are expanded percentile intervals of the bootstrap over clusters (:mod:`statistics.bootstrap`), at least as
wide as the jackknife intervals, with room for one more cluster.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lhaw_record.analytics.statistics.inference import Estimate, InferenceSettings, Units, agreeing, expanded, printed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lhaw_record.analytics.statistics.bootstrap import Floats, Statistic

_SAME_DIGITS = 9
"""Scores are rounded to this many decimals, so that rounding errors do not create categories."""


_FEWEST_CELLS = 3
_FEWEST_CLUSTERS = 15
"""With fewer clusters Kendall's tau has no interval: in tests/coverage its coverage was 0.92 with 13."""

_LARGEST_TAU = 0.9999
"""The largest tau before atanh, because atanh(1) is infinite."""


class RankAgreement(NamedTuple):
    """Kendall's tau-b and its asymptotic two-sided p-value, with the number of cells and of tied pairs.

    ``tau`` and ``p_value`` are None with fewer than three cells, or if all values of one agent are equal.
    """

    tau: float | None
    p_value: float | None
    n: int
    n_ties: int


def weighted_kappa(
    left: "Floats", right: "Floats", clusters: "NDArray[np.int64]", settings: InferenceSettings
) -> Estimate:
    """Estimate the weighted kappa of two graders' scores of the same items.

    Disagreements are weighted by the distance between the two scores: kappa = 1 - observed / expected. Here, observed
    is the mean distance, and expected is the mean distance if both graders scored independently with their observed
    frequencies. For the categories 0, 0.5 and 1, these are the usual linear weights.

    Source: J. Cohen, Weighted kappa, Psychological Bulletin 70 (1968).
    """
    import numpy as np

    if not len(left):
        return Estimate(reason="no_units")
    one, other = np.round(left, _SAME_DIGITS), np.round(right, _SAME_DIGITS)
    steps, place = np.unique(np.concatenate([one, other]), return_inverse=True)
    table = _tabulated(place[: len(one)] * len(steps) + place[len(one) :], len(steps) ** 2, clusters)
    counts = table.reshape(len(table), len(steps), len(steps))
    distances = np.abs(steps[:, None] - steps[None, :])

    def kappa(weights: "Floats") -> "Floats":
        cells = np.einsum("dc,cij->dij", weights, counts)  # whole numbers: exact on every machine
        total = cells.sum(axis=(1, 2))
        with np.errstate(invalid="ignore", divide="ignore"):
            observed = np.einsum("dij,ij->d", cells, distances) / total
            by_chance = np.einsum("di,dj,ij->d", cells.sum(axis=2), cells.sum(axis=1), distances, optimize=False)
            expected = by_chance / total**2
            found: Floats = np.where(expected > 0, 1 - observed / expected, np.nan)
        return found

    value = float(kappa(np.ones((1, len(counts))))[0])
    counted: dict[str, Any] = {"n_units": len(one), "n_clusters": len(counts)}
    if math.isnan(value):
        return Estimate(reason="no_variation", **counted)
    found = _jackknifed(kappa, counts.sum(axis=(1, 2)), settings)
    return found._replace(p_value=None, value=round(value, 6), **counted)


def rank_agreement(left: Sequence[float], right: Sequence[float]) -> RankAgreement:
    """Compute Kendall's tau-b of two agents over the cells that both have.

    The p-value uses the normal approximation with the variance under ties, without a continuity correction.

    Source: M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945).
    """
    import numpy as np

    n = len(left)
    rows, row = np.unique(np.asarray(left, dtype=np.float64), return_inverse=True)
    columns, column = np.unique(np.asarray(right, dtype=np.float64), return_inverse=True)
    counts = np.bincount(row * len(columns) + column, minlength=len(rows) * len(columns))
    table = counts.reshape(1, len(rows), len(columns)).astype(np.float64)  # whole numbers: exact on every machine
    sizes = (np.array([float(n)]), table[0].sum(axis=1), table[0].sum(axis=0))
    (pairs, tied_left, tied_right), tied_in_both = (_pairs(each).sum() for each in sizes), _pairs(table).sum()
    n_ties = int(tied_left + tied_right - tied_in_both)
    if n < _FEWEST_CELLS or len(rows) == 1 or len(columns) == 1:
        return RankAgreement(None, None, n, n_ties)
    score = float((_ordered_alike(table) - _ordered_alike(table[:, :, ::-1]))[0])
    spread, spread_left, spread_right = (np.sum(each * (each - 1) * (2 * each + 5)) for each in sizes)
    triples, triples_left, triples_right = (np.sum(each * (each - 1) * (each - 2)) for each in sizes)
    variance = (spread - spread_left - spread_right) / 18
    variance += tied_left * tied_right / pairs + triples_left * triples_right / (9 * triples)
    tau = score / math.sqrt((pairs - tied_left) * (pairs - tied_right))
    p_value = math.erfc(abs(score) / math.sqrt(2 * variance))
    return RankAgreement(round(tau, 6), float(f"{p_value:.6g}"), n, n_ties)


def rank_correlation(
    left: "Floats", right: "Floats", clusters: "NDArray[np.int64]", settings: InferenceSettings
) -> Estimate:
    """Estimate tau-b over the cells that two agents share.

    The cells of a cluster, such as the five timings of a variant, are drawn together. A cell that is drawn twice counts
    as two cells that are tied for both agents. Pairs are counted between distinct values, of which pass@k has few, so
    the time per draw does not grow with the square of the number of cells.
    """
    import numpy as np

    found = rank_agreement(left.tolist(), right.tolist())
    rows, row = np.unique(left, return_inverse=True)
    columns, column = np.unique(right, return_inverse=True)
    shape = (len(rows), len(columns))
    cells = _tabulated(row * shape[1] + column, shape[0] * shape[1], clusters)
    counted: dict[str, Any] = {"n_units": len(left), "n_clusters": len(cells)}
    if found.tau is None:
        return Estimate(reason="too_few_cells" if len(left) < _FEWEST_CELLS else "no_order", **counted)
    if len(cells) < _FEWEST_CLUSTERS:
        return Estimate(value=found.tau, reason="too_few_clusters", **counted)

    def tau(weights: "Floats") -> "Floats":
        counts = np.einsum("dc,cv->dv", weights, cells).reshape(-1, *shape)  # whole numbers: exact on every machine
        score = _ordered_alike(counts) - _ordered_alike(counts[:, :, ::-1])
        pairs = _pairs(counts.sum(axis=(1, 2)))
        ordered = [pairs - _pairs(counts.sum(axis=axis)).sum(axis=1) for axis in (2, 1)]
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn: Floats = score / np.sqrt(ordered[0] * ordered[1])
        return drawn

    by_chance = tau_by_chance(cells.reshape(-1, *shape))
    estimated = _jackknifed(tau, cells.sum(axis=1), settings, by_chance=by_chance)
    return estimated._replace(value=found.tau, **counted)


def tau_by_chance(cells: "Floats") -> float:
    """Compute the standard error of tau-b over tasks if the two agents are unrelated.

    If nearly all values are ties, a few tasks decide tau, and neither a bootstrap nor a jackknife of one study shows
    how much it could differ in another. This error comes from all pairings of one agent's tasks with the other's. It
    treats each task as a whole, whatever its number of cells.

    Source: H. E. Daniels, The relation between measures of correlation in the universe of sample permutations,
    Biometrika 33 (1944).
    """
    import numpy as np

    count = len(cells)
    sums, squares, ordered = [], [], 1.0
    for axis in (2, 1):
        shares = cells.sum(axis=axis) / cells.sum(axis=(1, 2))[:, None]
        places = np.arange(shares.shape[1])
        signs = np.sign(places[:, None] - places[None, :])
        scores, untied = shares @ signs @ shares.T, shares @ np.abs(signs) @ shares.T
        sums.append(float(np.sum(scores.sum(axis=1) ** 2)))
        squares.append(float(np.sum(scores**2)))
        ordered *= float(untied.sum() - np.trace(untied))
    if not ordered:
        return 0.0
    variance = 4 * (sums[0] - squares[0]) * (sums[1] - squares[1]) / (count * (count - 1) * (count - 2))
    return math.sqrt(max(0.0, variance + 2 * squares[0] * squares[1] / (count * (count - 1))) / ordered)


def _jackknifed(
    statistic: "Statistic", sizes: "Floats", settings: InferenceSettings, *, least: float = -1.0, by_chance: float = 0.0
) -> Estimate:
    """Widen the bootstrap interval to at least the bias-corrected jackknife interval over clusters.

    The jackknife uses atanh of the statistic, scaled to -1 to 1. Pairs of cells in the same cluster are concordant less
    often than pairs across clusters. With few clusters they make up many of the pairs and bias tau, and every bootstrap
    draw even more, towards 0. The largest p-value counts, so that it still agrees with the interval. Room for one more
    cluster, in perfect agreement or disagreement, widens both sides, but not beyond 0 if the p-value excludes 0.
    """
    import numpy as np
    from scipy.special import stdtr, stdtrit

    found = expanded(statistic, sizes, settings)
    if found.low is None or found.high is None or found.p_value is None:
        return found
    drawn = statistic(np.vstack((np.ones(len(sizes)), 1 - np.eye(len(sizes)))))
    values = np.arctanh(np.clip(2 * (drawn - least) / (1 - least) - 1, -_LARGEST_TAU, _LARGEST_TAU))
    count, value, left = len(sizes), float(values[0]), values[1:]
    if np.isnan(left).any():
        return found

    def back(place: float) -> float:
        return least + (1 - least) * (math.tanh(place) + 1) / 2

    error = float((count - 1) / count * np.sum((left - left.mean()) ** 2)) ** 0.5
    centre = count * value - (count - 1) * float(left.mean())
    degrees = max(1.0, float(sizes.sum() ** 2 / (sizes**2).sum()) - 1)
    half = float(stdtrit(degrees, 0.5 + settings.confidence / 2)) * error
    low, high = min(found.low, back(centre - half)), max(found.high, back(centre + half))
    p_value = max(found.p_value, 2 * float(stdtr(degrees, -abs(centre) / error)) if error else 0.0)
    if by_chance:
        p_value = max(p_value, 2 * float(stdtr(count - 1, -abs(float(drawn[0])) / by_chance)))
    side = 1 if low > 0 else -1 if high < 0 else 0
    if (side != 0) != (p_value < settings.level):
        side, p_value = 0, max(p_value, settings.level)
    own = back(value)
    low, high = agreeing(low - (own - least) / (count + 1), high + (1 - own) / (count + 1), side)
    return found._replace(low=max(least, low), high=min(1.0, high), p_value=printed(p_value, settings.level))


def f1(hits: Units, found: Units, settings: InferenceSettings) -> Estimate:
    """Estimate the harmonic mean of two ratios of sums, such as precision and recall. It is 0 if both are 0.

    Both ratios use the same draws, which keeps their correlation.
    """
    import numpy as np

    names, index = np.unique(np.concatenate([hits.clusters, found.clusters]), return_inverse=True)
    parts = (hits.numerators, hits.denominators), (found.numerators, found.denominators)
    places = index[: len(hits.clusters)], index[len(hits.clusters) :]
    sums = np.stack(
        [
            np.bincount(place, np.asarray(column, dtype=np.float64), len(names))
            for place, pair in zip(places, parts, strict=True)
            for column in pair
        ]
    )
    sums = sums[:, np.lexsort(sums)]

    def harmonic(weights: "Floats") -> "Floats":
        hit, asked, covered, wanted = (np.einsum("dc,c->d", weights, each) for each in sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            precision, recall = hit / asked, covered / wanted
            mean: Floats = 2 * precision * recall / (precision + recall)
        return np.where(precision + recall == 0, 0.0, mean)

    counted: dict[str, Any] = {"n_units": len(hits.clusters), "n_clusters": len(names)}
    value = float(harmonic(np.ones((1, len(names))))[0]) if len(names) else math.nan
    if math.isnan(value):
        return Estimate(reason="no_units", **counted)
    estimated = _jackknifed(harmonic, np.ones(len(names)), settings, least=0.0)
    return estimated._replace(p_value=None, value=round(value, 6), **counted)


def _tabulated(codes: "NDArray[np.int64]", size: int, clusters: "NDArray[np.int64]") -> "Floats":
    """Count the codes of each cluster: one row per cluster, in an order independent of the clusters' names."""
    import numpy as np

    names, index = np.unique(clusters, return_inverse=True)
    table = np.zeros((len(names), size))
    np.add.at(table, (index, codes), 1.0)
    return table[np.lexsort(table.T)] if size else table


def _pairs(counts: "Floats") -> "Floats":
    return counts * (counts - 1) / 2


def _ordered_alike(counts: "Floats") -> "Floats":
    """Count the concordant pairs in each draw, in which one cell has both the larger row and the larger column."""
    below = counts.cumsum(axis=1).cumsum(axis=2)
    pairs: Floats = (counts[:, 1:, 1:] * below[:, :-1, :-1]).sum(axis=(1, 2))
    return pairs
