"""How often intervals hold the truth, and tests see what is not there, in :mod:`tests.coverage.studies`."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from typing import NamedTuple

from tests.coverage.studies import KINDS, Design

LOWEST_COVERAGE = 0.93
"""At the nominal level of 0.95."""

HIGHEST_ERROR = 0.06
"""1.2 times the level."""

_FEWEST_INTERVALS = 0.05
"""With fewer studies that have an interval, their share says nothing about the method."""


class Coverage(NamedTuple):
    """What many studies of one design gave.

    ``hits`` counts the intervals that hold the truth, or the p-values below the level where there is nothing to see.
    ``with_interval`` counts the studies that have an interval (a p-value), of ``studies``.
    """

    design: Design
    hits: int
    with_interval: int
    studies: int

    @property
    def share(self) -> float:
        """The hits as a share of the studies with an interval; NaN without any."""
        return self.hits / self.with_interval if self.with_interval else math.nan

    @property
    def bounds(self) -> tuple[float, float]:
        """The exact 95 % interval of the share (Clopper and Pearson, Biometrika 26, 1934)."""
        from scipy.special import betaincinv

        misses = self.with_interval - self.hits
        low = float(betaincinv(self.hits, misses + 1, 0.025)) if self.hits else 0.0
        return low, float(betaincinv(self.hits + 1, misses, 0.975)) if misses else 1.0

    @property
    def is_met(self) -> bool | None:
        """Whether the share is what docs/metrics.md 5 promises. None without a promise, or with hardly an interval."""
        if not KINDS[self.design.kind].is_promised or self.with_interval < _FEWEST_INTERVALS * self.studies:
            return None
        return self.share <= HIGHEST_ERROR if self._is_test else self.share >= LOWEST_COVERAGE

    @property
    def is_certain(self) -> bool:
        """Whether all of ``bounds`` is what is promised, so that the number of studies leaves no doubt."""
        low, high = self.bounds
        return high <= HIGHEST_ERROR if self._is_test else low >= LOWEST_COVERAGE

    @property
    def _is_test(self) -> bool:
        return KINDS[self.design.kind].is_test


def grid(size: str) -> Iterator[Design]:
    """Yield the designs of the grid: ``small`` for a look, ``full`` as docs/coverage.md shows it."""
    is_full = size == "full"
    for name, kind in KINDS.items():
        for tasks, variants, correlation, agents, is_copied, mean in product(
            kind.tasks if is_full else kind.tasks[1:2],
            kind.variants if is_full else kind.variants[:1],
            (0.0, 0.3, 0.7) if is_full else (0.3,),
            (1, 3) if is_full and kind.has_agents else (1,),
            (False, True) if is_full and kind.has_copies else (False,),
            kind.means if is_full else kind.means[-1:],
        ):
            if (is_copied and variants == 1) or (agents > 1 and correlation == 0):
                continue  # the same as without copies, or as more variants
            yield Design(name, tasks, variants, correlation, agents, is_copied, mean)


def simulated(design: Design, studies: int) -> Coverage:
    """Simulate a design. One that could miss what it should hold is simulated again, with four times as many studies.

    Of many designs, some look too low or too high by chance. The second simulation, of new studies, alone counts then,
    so it is free of that choice. Where few studies have an interval, it has more studies to make up for that.
    """
    found = covered(design, studies)
    if found.is_met is None or found.is_certain:
        return found
    return covered(design, 4 * studies * round(studies / found.with_interval))


def all_simulated(designs: Sequence[Design], studies: int, processes: int) -> Iterator[Coverage]:
    """Simulate designs in their order. Every design has a seed of its own, so ``processes`` change no number."""
    if min(processes, len(designs)) < 2:
        yield from (simulated(design, studies) for design in designs)
        return
    with ProcessPoolExecutor(min(processes, len(designs)), get_context("spawn")) as pool:
        yield from pool.map(simulated, designs, [studies] * len(designs))


def covered(design: Design, studies: int) -> Coverage:
    """Simulate studies of one design and judge the interval, or the test, of each."""
    import numpy as np

    place = list(KINDS).index(design.kind)
    numbers = [studies, place, design.tasks, abs(design.variants), design.agents, int(design.is_copied)]
    rng = np.random.default_rng([*numbers, int(100 * design.correlation), int(100 * design.mean)])
    judge = KINDS[design.kind].judge
    judged = [hit for hit in (judge(design, rng) for _ in range(studies)) if hit is not None]
    return Coverage(design, sum(judged), len(judged), studies)
