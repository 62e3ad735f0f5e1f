"""Tests of hypotheses: sign flips of paired differences, and the rank agreement of two agents.

Every test that draws gets a seed, sums integers and counts, so that each machine prints the same p-value.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_STEPS = 10**9
"""Differences are counted in steps of this fraction of one, so that no sum has a last bit that machines disagree on."""

_BLOCK = 10_000
"""How many draws are held at once."""


class SignFlips(NamedTuple):
    """A p-value, the number of things flipped, and how: ``exact`` or ``monte_carlo``."""

    p_value: float
    n: int
    method: str


class RankAgreement(NamedTuple):
    """Kendall's tau-b with its asymptotic two-sided p; None with fewer than three cells, or without any order."""

    tau: float | None
    p_value: float | None
    n: int
    n_ties: int


def sign_flips(
    differences: Sequence[float], clusters: Sequence[int], *, draws: int, seed: int, is_two_sided: bool
) -> SignFlips | None:
    """Return the p-value of a mean difference under random signs, those of one cluster together.

    Exact where there are at most ``draws`` ways to choose the signs, else p = (1 + #extreme) / (1 + draws).

    Args:
        differences: One value per unit, within ±1000.
        clusters: Which units keep one sign; all different where every unit is free.
        draws: Most sign choices that are looked at.
        seed: Of the draws.
        is_two_sided: Whether a mean below zero counts as extreme too.

    Returns:
        None without units.

    Source: R. A. Fisher, The design of experiments (1935), 21; the added one is that of B. Phipson and G. K. Smyth,
    Permutation p-values should never be zero, Stat. Appl. Genet. Mol. Biol. 9 (2010).
    """
    import numpy as np

    if not len(differences):
        return None
    steps = np.rint(np.asarray(differences, dtype=np.float64) * _STEPS).astype(np.int64)
    _, cluster = np.unique(np.asarray(clusters, dtype=np.int64), return_inverse=True)
    sums = np.zeros(int(cluster.max()) + 1, dtype=np.int64)
    np.add.at(sums, cluster, steps)
    observed = int(sums.sum())
    least = (abs(observed) if is_two_sided else observed) - len(steps)  # sums that differ by their rounding are equal
    n = len(sums)
    if 2**n <= draws:
        extreme = _count_extreme(_all_signs(sums), least, is_two_sided=is_two_sided)
        return SignFlips(extreme / 2**n, n, "exact")
    sizes, counts = np.unique(np.abs(sums[sums != 0]), return_counts=True)  # sums of one size are told apart by none
    generator = np.random.default_rng(seed)
    extreme = 0
    for begin in range(0, draws, _BLOCK):
        drawn = np.zeros(min(_BLOCK, draws - begin), dtype=np.int64)
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            drawn += size * (2 * _heads(generator, len(drawn), count) - count)
        extreme += _count_extreme(drawn, least, is_two_sided=is_two_sided)
    return SignFlips((1 + extreme) / (1 + draws), n, "monte_carlo")


def rank_agreement(left: Sequence[float], right: Sequence[float]) -> RankAgreement:
    """Return Kendall's tau-b of two agents over the cells that both have, tied pairs counted.

    Pairs are counted between the distinct values, of which pass@k has few, so thousands of cells cost nothing.

    Source: M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945); p from the normal
    approximation of the score with the variance under ties, without a correction for continuity.
    """
    import numpy as np

    n = len(left)
    _, row = np.unique(np.asarray(left, dtype=np.float64), return_inverse=True)
    _, column = np.unique(np.asarray(right, dtype=np.float64), return_inverse=True)
    counts = np.zeros((max(row, default=-1) + 1, max(column, default=-1) + 1), dtype=np.int64)
    np.add.at(counts, (row, column), 1)
    x, y = ([int(count) for count in counts.sum(axis=axis)] for axis in (1, 0))
    pairs, tied_x, tied_y = n * (n - 1) // 2, _falling(x, 2) // 2, _falling(y, 2) // 2
    n_ties = tied_x + tied_y - _falling([int(count) for count in counts.flat], 2) // 2
    if n < 3 or len(x) == 1 or len(y) == 1:
        return RankAgreement(None, None, n, n_ties)
    score = _ordered_alike(counts) - _ordered_alike(counts[:, ::-1])
    tau = score / math.sqrt((pairs - tied_x) * (pairs - tied_y))
    squares = sum(2 * _falling(sizes, 3) + 9 * _falling(sizes, 2) for sizes in (x, y))  # t (t - 1) (2 t + 5)
    variance = (2 * _falling([n], 3) + 9 * _falling([n], 2) - squares) / 18
    variance += tied_x * tied_y / pairs + _falling(x, 3) * _falling(y, 3) / (9 * _falling([n], 3))
    p_value = math.erfc(abs(score) / math.sqrt(2 * variance))
    return RankAgreement(round(tau, 6), float(f"{p_value:.6g}"), n, n_ties)


def _all_signs(sums: "Integers") -> "Integers":
    """Return the sum under every choice of signs; the first is that of all signs as they are."""
    import numpy as np

    drawn = np.zeros(1, dtype=np.int64)
    for value in sums:
        drawn = np.concatenate((drawn + value, drawn - value))
    return drawn


def _count_extreme(drawn: "Integers", least: int, *, is_two_sided: bool) -> int:
    import numpy as np

    return int(np.count_nonzero((np.abs(drawn) if is_two_sided else drawn) >= least))


def _heads(generator: "np.random.Generator", draws: int, coins: int) -> "Integers":
    """Return the number of heads among some fair coins, once for each draw: the bits of random words, counted."""
    import numpy as np

    words = generator.integers(np.iinfo(np.uint64).max, size=(draws, -(-coins // 64)), dtype=np.uint64, endpoint=True)
    words[:, -1] >>= np.uint64(-coins % 64)
    heads: Integers = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    return heads


def _falling(sizes: Sequence[int], factors: int) -> int:
    """Return the sum of t (t - 1) ... over the sizes, with so many factors."""
    return sum(math.perm(size, factors) for size in sizes)


def _ordered_alike(counts: "Integers") -> int:
    """Return the pairs of which one has both the larger row and the larger column."""
    below = counts.cumsum(axis=0).cumsum(axis=1)
    return int((counts[1:, 1:] * below[:-1, :-1]).sum())
