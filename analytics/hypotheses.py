"""Tests of hypotheses: sign flips of paired differences, and the rank agreement of two agents.

Every test that draws gets a seed, sums integers and counts, so that each machine prints the same p-value.
"""

from collections.abc import Sequence
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
        drawn = _all_signs(sums)
        extreme = _count_extreme(drawn, least, is_two_sided=is_two_sided)
        return SignFlips(extreme / len(drawn), n, "exact")
    generator = np.random.default_rng(seed)
    extreme = 0
    for begin in range(0, draws, _BLOCK):
        signs = generator.integers(2, size=(min(_BLOCK, draws - begin), n), dtype=np.int64) * 2 - 1
        extreme += _count_extreme(signs @ sums, least, is_two_sided=is_two_sided)
    return SignFlips((1 + extreme) / (1 + draws), n, "monte_carlo")


def rank_agreement(left: Sequence[float], right: Sequence[float]) -> RankAgreement:
    """Return Kendall's tau-b of two agents over the cells that both have, tied pairs counted.

    Source: M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945); p as scipy's asymptotic one.
    """
    from scipy.stats import kendalltau

    n = len(left)
    n_ties = sum(left[a] == left[b] or right[a] == right[b] for a in range(n) for b in range(a + 1, n))
    if n < 3 or len(set(left)) == 1 or len(set(right)) == 1:
        return RankAgreement(None, None, n, n_ties)
    found = kendalltau(left, right, method="asymptotic")
    return RankAgreement(round(float(found.statistic), 6), float(f"{found.pvalue:.6g}"), n, n_ties)


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
