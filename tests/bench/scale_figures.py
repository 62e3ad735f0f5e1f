"""What is measured at each size, as data: the operations, their budgets, and one figure for each of them."""

from typing import Literal

import msgspec

PageCache = Literal["dropped", "warm"]
PAGE_CACHES: tuple[PageCache, ...] = ("dropped", "warm")

OPERATIONS = {
    "tables": "all tables",
    "verify": "log verify",
    "mean": "sql, mean per condition",
    "actions": "sql, actions by tool",
    "show": "show, one trial",
    "fetch": "one trial",
    "fetch_first": "the first in a process",
}
"""What is done, and what it is called in the report. The last two are calls within a process, the others programs;
``fetch`` leaves out the first call, in which a process also does what it does once."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation may take at some size; ``events`` is None where it holds at any size."""

    operation: str
    events: int | None
    wall_s: float
    peak_bytes: int | None = None


BUDGETS = (
    Budget(operation="tables", events=10_000, wall_s=1),
    Budget(operation="tables", events=500_000, wall_s=1.5, peak_bytes=1 << 30),
    Budget(operation="tables", events=10_000_000, wall_s=10, peak_bytes=4 << 30),
    Budget(operation="fetch", events=None, wall_s=0.05),
)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One operation at one size: medians over ``runs`` runs.

    ``peak_bytes`` and ``cpu_s`` are those of the whole program, and None for a call within one. ``load`` is the load
    average of a minute before; ``others_cpus`` the CPUs that other programs used meanwhile.
    """

    operation: str
    page_cache: PageCache
    runs: int
    wall_s: float
    lowest_s: float
    highest_s: float
    cpu_s: float | None = None
    peak_bytes: int | None = None
    load: float
    others_cpus: float | None
    measured_at: str


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """One store and what was measured on it; ``wanted_events`` is the number that it was made with."""

    wanted_events: int
    events: int
    trials: int
    segments: int
    store_bytes: int
    measured: tuple[Measured, ...]

    def find(self, operation: str, page_cache: PageCache) -> Measured | None:
        """Return what an operation took, or None if it was not measured."""
        found = [one for one in self.measured if (one.operation, one.page_cache) == (operation, page_cache)]
        return found[0] if found else None


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report: the machine, and the sizes in rising order."""

    machine: str
    sizes: tuple[Size, ...]


def verdict(budget: Budget, size: Size) -> bool | None:
    """Return whether a size is within a budget, with both states of the page cache; None if it says nothing of it."""
    if budget.events not in (None, size.wanted_events):
        return None
    found = [one for cache in PAGE_CACHES if (one := size.find(budget.operation, cache))]
    if not found:
        return None
    return all(
        one.wall_s <= budget.wall_s and (one.peak_bytes or 0) <= (budget.peak_bytes or one.peak_bytes or 0)
        for one in found
    )
