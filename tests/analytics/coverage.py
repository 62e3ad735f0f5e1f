"""How often the intervals hold the truth: ``python -m tests.analytics.coverage`` writes docs/coverage.md.

Wilson is summed over all outcomes, so it is exact. The bootstrap is simulated through the function of the tables:
clusters of three trials, whose chances differ between clusters (a beta distribution with mean p and weight 2), and the
mean over clusters as the estimate of p.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from analytics.statistics import Settings, ratio_interval, wilson

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
SIZES = (12, 30, 100)
CHANCES = (0.05, 0.5, 0.95)
CONFIDENCE = 0.95
GOOD = 0.93
TRIALS = 3
WEIGHT = 2.0
DRAWS = 2000
SEED = 20260210
RUNS = 2000
HEAD = """\
# How often the intervals hold the truth

Written by `python -m tests.analytics.coverage`; a test recomputes some of its cells. A 95 % interval should hold the
true value in 95 of 100 studies. Cells below 0.93 are **bold**.

- **wilson**: units that are 0 or 1, independent, with chance p; exact, summed over all outcomes.
- **percentile**, **bca**: the mean over n clusters of three trials; the chance differs between clusters (beta with mean
  p and weight 2, so chances near 0 and 1 are common), as it does between tasks. 2,000 simulated studies for each cell,
  2,000 draws each, seeds fixed; the standard error of a cell is at most 0.011. A study in which all clusters are equal
  has an interval of width 0, which misses; the tables print `no_variation` instead of it.

| n | p | wilson | percentile | bca |
|---:|---:|---:|---:|---:|
"""
TAIL = """
Wilson is at its level everywhere. The bootstrap is at its level with 100 clusters, and with fewer where the share is in
the middle. With 12 clusters and a share near 0 or 1 both ways of reading it are far too narrow: many studies see no
variation at all. With 30 clusters `bootstrap = bca` mends most of it. So with a dozen tasks take the interval of a
share near 0 or 1 as a lower bound of the uncertainty, and prefer pass@k with n = k, whose interval is Wilson's.
"""


class Cell(NamedTuple):
    """The share of studies whose interval holds p."""

    size: int
    chance: float
    wilson: float
    percentile: float
    bca: float


def wilson_coverage(size: int, chance: float) -> float:
    """Return the exact coverage of Wilson's interval."""
    counts = range(size + 1)
    intervals = [wilson(count, size, CONFIDENCE) for count in counts]
    holds = [each is not None and each.low <= chance <= each.high for each in intervals]
    return float(np.sum(binom.pmf(np.flatnonzero(holds), size, chance)))


def bootstrap_coverage(size: int, chance: float, method: str, runs: int = RUNS) -> float:
    """Return the simulated coverage of the cluster bootstrap; equal arguments give equal shares."""
    settings = Settings(size, DRAWS, SEED, CONFIDENCE, method)
    clusters, ones = list(range(size)), [1.0] * size
    held = 0
    for values in studies(size, chance, runs):
        interval = ratio_interval(values.tolist(), ones, clusters, settings)
        held += interval is not None and interval.low <= chance <= interval.high
    return held / runs


def studies(size: int, chance: float, runs: int) -> np.ndarray:
    """Return simulated studies, a row each: the share of successes in each cluster."""
    random = np.random.default_rng([SEED, size, int(100 * chance)])
    chances = random.beta(WEIGHT * chance, WEIGHT * (1 - chance), size=(runs, size))
    shares: np.ndarray = random.binomial(TRIALS, chances) / TRIALS
    return shares


def cells() -> Iterator[Cell]:
    """Yield every cell of the page."""
    for size in SIZES:
        for chance in CHANCES:
            simulated = (bootstrap_coverage(size, chance, method) for method in ("percentile", "bca"))
            yield Cell(size, chance, wilson_coverage(size, chance), *simulated)


def page() -> str:
    """Return the whole page."""
    lines = (
        f"| {cell.size} | {cell.chance} | {' | '.join(_shown(share) for share in cell[2:])} |\n" for cell in cells()
    )
    return HEAD + "".join(lines) + TAIL


def _shown(share: float) -> str:
    return f"**{share:.3f}**" if share < GOOD else f"{share:.3f}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
