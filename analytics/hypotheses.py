"""Tests of hypotheses: sign flips of paired differences, and the rank agreement of two agents.

Every test that draws gets a seed, sums integers and counts, so that each machine prints the same p-value.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_STEPS = 10**9
"""Differences are counted in steps of this fraction of one, so that no sum has a last bit that machines disagree on."""

_BLOCK = 2_000
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
    signs = _signs(draws, n, seed)
    exact_sums = sums.astype(np.float64)  # integers below 2^53: a matrix product is exact, whatever its order
    extreme = 0
    for begin in range(0, draws, _BLOCK):
        drawn = signs[begin : begin + _BLOCK].astype(np.float64) @ exact_sums
        extreme += _count_extreme(drawn, least, is_two_sided=is_two_sided)
    return SignFlips((1 + extreme) / (1 + draws), n, "monte_carlo")


def rank_agreement(left: Sequence[float], right: Sequence[float]) -> RankAgreement:
    """Return Kendall's tau-b of two agents over the cells that both have, tied pairs counted.

    Source: M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945); for the variance without an
    association Rank correlation methods (1970), 4. It equals ``scipy.stats.kendalltau(method="asymptotic")``, whose
    import takes longer than every other table of a small store.
    """
    import numpy as np

    n = len(left)
    orders = [np.sign(np.subtract.outer(side, side)).astype(np.int8) for side in map(np.asarray, (left, right))]
    score = int(np.einsum("ij,ij->", *orders, dtype=np.int64)) // 2
    n_ties = (int(np.count_nonzero((orders[0] == 0) | (orders[1] == 0))) - n) // 2
    ties = [_ties(side) for side in (left, right)]
    pairs = n * (n - 1) // 2
    untied = [pairs - each.pairs for each in ties]
    if n < 3 or 0 in untied:
        return RankAgreement(None, None, n, n_ties)
    variance = (n * (n - 1) * (2 * n + 5) - ties[0].cubic - ties[1].cubic) / 18
    variance += 2 * ties[0].pairs * ties[1].pairs / (n * (n - 1))
    variance += ties[0].triples * ties[1].triples / (9 * n * (n - 1) * (n - 2))
    p_value = math.erfc(abs(score) / math.sqrt(2 * variance))
    return RankAgreement(round(score / math.sqrt(untied[0] * untied[1]), 6), float(f"{p_value:.6g}"), n, n_ties)


class _Ties(NamedTuple):
    """Sums over groups of t equal values: t(t-1)/2, t(t-1)(t-2) and t(t-1)(2t+5)."""

    pairs: int
    triples: int
    cubic: int


def _ties(values: Sequence[float]) -> _Ties:
    groups = Counter(values).values()
    return _Ties(
        sum(t * (t - 1) // 2 for t in groups),
        sum(t * (t - 1) * (t - 2) for t in groups),
        sum(t * (t - 1) * (2 * t + 5) for t in groups),
    )


@lru_cache(maxsize=8)
def _signs(draws: int, n: int, seed: int) -> "NDArray[np.int8]":
    """Return the drawn signs, shape (draws, n): one set for all tests of a size."""
    import numpy as np

    return np.random.default_rng(seed).integers(2, size=(draws, n), dtype=np.int8) * np.int8(2) - np.int8(1)


def _all_signs(sums: "Integers") -> "Integers":
    """Return the sum under every choice of signs; the first is that of all signs as they are."""
    import numpy as np

    drawn = np.zeros(1, dtype=np.int64)
    for value in sums:
        drawn = np.concatenate((drawn + value, drawn - value))
    return drawn


def _count_extreme(drawn: "Integers | NDArray[np.float64]", least: int, *, is_two_sided: bool) -> int:
    import numpy as np

    return int(np.count_nonzero((np.abs(drawn) if is_two_sided else drawn) >= least))
