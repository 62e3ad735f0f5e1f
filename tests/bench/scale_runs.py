"""The measurements on one store: every operation, cold and with its files in memory, as medians over some runs."""

import json
import os
import statistics
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lhaw_record.recorder.reading.reader import stream_ids
from lhaw_record.recorder.storage.segments import list_segments
from lhaw_record.recorder.storage.store import Store
from tests.bench.cold import PROGRAM, Taken, drop_from_cache, load_into_cache, run
from tests.bench.neighbours import QUIET_CPUS, wait_for_quiet
from tests.bench.scale_figures import OPERATIONS, PAGE_CACHES, Measured, PageCache, Size
from tests.bench.stores import size_bytes
from tests.bench.tables import tables_command

RUNS, RUNS_OF_LONG_ONES, LONG_EVENTS = 5, 3, 2_000_000
VERIFIED_ONCE_EVENTS = 1_000_000  # verification decodes every event in Python: minutes at 10 million
FETCHES = 4  # trials in one process: the first and three further ones
MEAN = "select condition, avg(checkpoint_progress) as score from trials group by all order by all"
ACTIONS = """
select action_name, count(*) as actions, avg(is_error::int) as errors, median(duration_ms) as duration_ms
from actions
group by all order by all
"""


def measure(
    root: Path,
    wanted_events: int,
    operations: Collection[str] = tuple(OPERATIONS),
    *,
    is_quick: bool = False,
    patience_s: float = 0,
) -> Iterator[Size]:
    """Measure operations on one store, and yield each as it is measured: the size with this alone in it.

    Args:
        root: The store, at rest.
        wanted_events: The number of events that it was made with.
        operations: What to measure.
        is_quick: One run of each, with the files dropped from the page cache only.
        patience_s: For how long each run may wait, and be repeated, until other programs leave the machine to it.

    Raises:
        ProgramFailed: A program failed.
    """
    yield from _Bench(root, wanted_events, is_quick=is_quick, patience_s=patience_s).sizes(operations)


class _Bench:
    """The measurements on one store."""

    def __init__(self, root: Path, wanted_events: int, *, is_quick: bool, patience_s: float) -> None:
        self._root = root
        self._wanted_events = wanted_events
        self._is_quick = is_quick
        self._patience_s = patience_s
        self._stream_ids = sorted(name for name in stream_ids(root) if not name.startswith("synthetic-"))

    def sizes(self, operations: Collection[str]) -> Iterator[Size]:
        """Measure one operation after the other."""
        segments = list_segments(Store(self._root)).chosen
        size = Size(
            wanted_events=self._wanted_events,
            events=sum(segment.records for segment in segments),
            trials=len({name.rpartition("-")[0] for name in self._stream_ids}),
            segments=len(segments),
            store_bytes=size_bytes(self._root),
            measured=(),
        )
        for page_cache in PAGE_CACHES[:1] if self._is_quick else PAGE_CACHES:
            for operation in operations:
                if (operation, page_cache) != ("verify", "warm"):  # it takes so long that files hardly matter
                    yield msgspec.structs.replace(size, measured=(self._measured(operation, page_cache),))

    def _measured(self, operation: str, page_cache: PageCache) -> Measured:
        """Measure one operation."""
        if operation in ("fetch", "fetch_first"):
            return self._fetch(operation, page_cache)
        store = str(self._root)
        commands = {
            "tables": tables_command(self._root),
            "mean": [*PROGRAM, "sql", store, "-c", MEAN, "--format", "json"],
            "actions": [*PROGRAM, "sql", store, "-c", ACTIONS, "--format", "json"],
            "show": [*PROGRAM, "show", store, self._stream_ids[len(self._stream_ids) // 2]],
            "verify": [*PROGRAM, "log", "verify", store],
        }
        is_once = operation == "verify" and self._wanted_events >= VERIFIED_ONCE_EVENTS
        runs = range(1 if is_once else self._runs)
        takes = [self._run(page_cache, commands[operation])[0] for _ in runs]
        return _summed(operation, page_cache, [one.wall_s for one in takes], takes, is_program=True)

    @property
    def _runs(self) -> int:
        return 1 if self._is_quick else RUNS_OF_LONG_ONES if self._wanted_events >= LONG_EVENTS else RUNS

    def _fetch(self, operation: str, page_cache: PageCache) -> Measured:
        """One trial after another in a process; the first apart, because it has in it what a process does once."""
        step = len(self._stream_ids) // (self._runs * FETCHES) or 1
        times_s: list[float] = []
        takes: list[Taken] = []
        for number in range(self._runs):
            picked = self._stream_ids[number * FETCHES * step :: step][:FETCHES]
            fetch = [sys.executable, "-m", "tests.bench.fetching", page_cache, str(self._root), *picked]
            taken, printed = self._run(page_cache, fetch)
            seconds = [each / 1e3 for each in json.loads(printed)]
            times_s += seconds[:1] if operation == "fetch_first" else seconds[1:]
            takes.append(taken)
        return _summed(operation, page_cache, times_s, takes)

    def _run(self, page_cache: PageCache, command: Sequence[str]) -> tuple[Taken, str]:
        """One run; while patience lasts, again and again until one is left alone. The quietest counts."""
        impatient_s = time.monotonic() + self._patience_s
        attempts = []
        while not attempts or ((attempts[-1][0].others_cpus or 0) > QUIET_CPUS and time.monotonic() < impatient_s):
            wait_for_quiet(impatient_s - time.monotonic())
            (drop_from_cache if page_cache == "dropped" else load_into_cache)(self._root)
            attempts.append(run(command))
        return min(attempts, key=lambda attempt: attempt[0].others_cpus or 0)


def _summed(
    operation: str, page_cache: PageCache, times_s: Sequence[float], takes: Sequence[Taken], *, is_program: bool = False
) -> Measured:
    others = [one.others_cpus for one in takes if one.others_cpus is not None]
    return Measured(
        operation=operation,
        page_cache=page_cache,
        runs=len(times_s),
        wall_s=statistics.median(times_s),
        lowest_s=min(times_s),
        highest_s=max(times_s),
        cpu_s=statistics.median(one.cpu_s for one in takes) if is_program else None,
        peak_bytes=round(statistics.median(one.peak_bytes for one in takes)) if is_program else None,
        load=round(os.getloadavg()[0], 2),
        others_cpus=round(statistics.median(others), 2) if others else None,
        measured_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
    )
