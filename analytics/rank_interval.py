"""The interval of Kendall's tau-b: the cells of one cluster, such as a variant's five timings, are drawn together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analytics.statistics import Interval, Settings, resampled

if TYPE_CHECKING:
    from analytics.statistics import Floats


def rank_interval(
    left: Sequence[float], right: Sequence[float], clusters: Sequence[int], settings: Settings
) -> Interval | None:
    """Return the bootstrap interval of tau-b over the cells that two agents share.

    A cell that is drawn twice is two cells with the same values, a tie of both agents. Pairs are counted between the
    distinct values, of which pass@k has few, so the time of a draw does not grow with the square of the cells.

    Args:
        left: Values of one agent.
        right: Those of the other, of the same cells in the same order.
        clusters: Index of each cell's cluster in the whole set, from 0.
        settings: The set of clusters and the way of resampling.

    Returns:
        None with fewer than two clusters, or where no draw has an order. Draws without one do not count.
    """
    import numpy as np

    index = np.asarray(clusters, dtype=np.int64)
    rows, row = np.unique(np.asarray(left, dtype=np.float64), return_inverse=True)
    columns, column = np.unique(np.asarray(right, dtype=np.float64), return_inverse=True)
    shape = (len(rows), len(columns))
    cells = np.zeros((settings.cluster_count, shape[0] * shape[1]))
    np.add.at(cells, (index, row * shape[1] + column), 1.0)

    def tau(weights: "Floats") -> "Floats":
        counts = np.einsum("dc,cv->dv", weights, cells).reshape(-1, *shape)  # whole numbers: the same digits everywhere
        score = _ordered_alike(counts) - _ordered_alike(counts[:, :, ::-1])
        pairs = _pairs(counts.sum(axis=(1, 2)))
        ordered = [pairs - _pairs(counts.sum(axis=axis)).sum(axis=1) for axis in (2, 1)]
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Floats = score / np.sqrt(ordered[0] * ordered[1])
        return found

    return resampled(tau, np.unique(index), settings)


def _pairs(counts: "Floats") -> "Floats":
    return counts * (counts - 1) / 2


def _ordered_alike(counts: "Floats") -> "Floats":
    """Return, for each draw, the pairs of which one has both the larger row and the larger column."""
    below = counts.cumsum(axis=1).cumsum(axis=2)
    pairs: Floats = (counts[:, 1:, 1:] * below[:, :-1, :-1]).sum(axis=(1, 2))
    return pairs
