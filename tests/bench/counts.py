"""Counts what no machine changes: calls, system calls, searches, queries, modules, bytes; of a run and of a command.

``python -m tests.bench.counts run DIRECTORY`` and ``... command WORD ...`` print them as JSON. One trial runs at a
time, so that each commit holds one append and nothing depends on which thread was faster.
"""

import asyncio
import contextlib
import io
import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

# What is counted is imported where it is used, because modules are counted too.
TASKS, TRIALS, ACTIONS = 3, 2, 15
_WAITING = ("/asyncio/", "/threading.py", "/selectors.py", "/concurrent/")  # go round more often when a thread is late
_QUERIES = ("execute", "executemany", "sql", "query")


class Tally:
    """Counts calls of this thread and of those that start in the block, by what they are."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._loop_thread = threading.get_ident()
        self._kinds: dict[CodeType, tuple[bool, bool]] = {}

    def __enter__(self) -> Self:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # typeshed allows functions only

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "c_call"):
            return
        kind = self._kinds.get(frame.f_code)
        if kind is None:
            path = frame.f_code.co_filename
            kind = self._kinds[frame.f_code] = any(each in path for each in _WAITING), "/re2/" in path
        is_waiting, is_search = kind
        if is_waiting:
            return
        is_in_loop = threading.get_ident() == self._loop_thread
        self.counts["calls"] += is_in_loop or "/lhaw_record/" in frame.f_code.co_filename
        if event == "call":
            self.counts["searches in the loop"] += is_search and is_in_loop
        elif argument.__module__ == "posix":
            self.counts["system calls"] += 1


def counted_run(directory: Path) -> dict[str, float]:
    """Run scripted trials into a store, without pandas as the program does, and count."""
    from lhaw_record.recorder.processes import refuse_pandas

    refuse_pandas()
    from lhaw_record.recorder.reading.reader import read_envelopes
    from lhaw_record.recorder.storage.store import Store

    asyncio.run(_run(directory / "warm", tasks=1))
    with Tally() as tally:
        asyncio.run(_run(directory / "store", tasks=TASKS))
    store = Store(directory / "store")
    events = len(read_envelopes(store.root))
    return {
        "calls per turn": tally.counts["calls"] / (TASKS * 3 * TRIALS * ACTIONS),
        "searches per event in the loop's thread": tally.counts["searches in the loop"] / events,
        "system calls per event": tally.counts["system calls"] / events,
        "sealed bytes per event": sum(path.stat().st_size for path in store.segment_paths()) / events,
        "modules": len(sys.modules),
    }


async def _run(root: Path, *, tasks: int) -> None:
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.recorder.writing.store_recorder import StoreRecorder
    from tests.support.toy_benchmark import ToyExperiment, Workload

    workload = Workload(tasks=tasks, trials=TRIALS, actions=ACTIONS, concurrency=1)
    async with StoreRecorder(create_store(root), "toy") as recorder:
        assert (await ToyExperiment(workload).run(recorder)).outcome == "completed"


def counted_command(words: list[str]) -> dict[str, float]:
    """Run a command of the program, and count."""
    from lhaw_record import command_line

    sys.argv = ["lhaw-record", *words]
    queries = _counted_queries() if words != ["--help"] else []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit), Tally() as tally:
        command_line.main()
    return {"queries": len(queries), "calls": tally.counts["calls"], "modules": len(sys.modules)}


def _counted_queries() -> list[str]:
    """Return a list that from now on gets the name of each call that makes a query; a profiler does not see them."""
    import duckdb

    made: list[str] = []

    def counting(name: str) -> None:
        original = getattr(duckdb.DuckDBPyConnection, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            made.append(name)
            return original(*arguments, **options)

        setattr(duckdb.DuckDBPyConnection, name, counted)

    for name in _QUERIES:
        counting(name)
    return made


def main() -> None:
    """Count what the arguments say, and print it."""
    what, *words = sys.argv[1:]
    found = counted_run(Path(*words)) if what == "run" else counted_command(words)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
