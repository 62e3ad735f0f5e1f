"""``python -m tests.bench [SECTION ...]``: measures what has a budget, and prints each section when it is done."""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import msgspec

from tests.bench import end_to_end, figures, gateway, growth, memory, recording, sealing, tables
from tests.bench.growth import Growth
from tests.bench.stores import KEPT, kept_store
from tests.support.toy_benchmark import Workload


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured; the gateway is left out where it has no trials."""

    runs: int
    events_each: int
    journal_bytes: int
    long_events: int
    workload: Workload
    table_events: tuple[int, ...]
    gateway_trials: int = 0
    gateway_turns: int = 15
    gateway_calls: int = 10_000
    growth: Growth = Growth()


FULL = Sizes(
    runs=5,
    events_each=300,
    journal_bytes=8 << 20,
    long_events=1_000_000,
    workload=Workload(),
    table_events=(10_000, 500_000),
    gateway_trials=200,
)
QUICK = Sizes(
    runs=1,
    events_each=8,
    journal_bytes=200_000,
    long_events=40_960,
    workload=Workload(tasks=1, trials=3, actions=3, concurrency=4),
    table_events=(2_000,),
    growth=Growth(turns=(3, 12), result_characters=(1_000, 10_000), trials=300),
)


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Measure and print; 0 even when a budget is exceeded, because times on a shared machine decide nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure speed and size.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="what to measure (default: everything)")
    parser.add_argument("--quick", action="store_true", help="one short run of everything, to see that it works")
    parser.add_argument("--directory", type=Path, default=Path("stores"), help="a directory on a real disk")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write each section into this page")
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as temporary:
        kept = Path(temporary) if options.quick else KEPT
        known = sections(Path(temporary), kept, QUICK if options.quick else FULL)
        if unknown := set(options.sections) - set(known):
            parser.error(f"there is no section {', '.join(sorted(unknown))}; known: {', '.join(known)}")
        report({name: known[name] for name in options.sections or known}, out, options.page)
    return 0


def sections(directory: Path, kept: Path, sizes: Sizes) -> dict[str, Callable[[], list[figures.Figure]]]:
    """Return what there is to measure by name, in a directory, the tables on a store among those that are kept."""
    runs = sizes.runs
    found: dict[str, Callable[[], list[figures.Figure]]] = {
        "recording": lambda: recording.measure(_room(directory, "recording"), runs=runs, events_each=sizes.events_each),
        "sealing": lambda: sealing.measure(_room(directory, "sealing"), runs=runs, journal_bytes=sizes.journal_bytes),
        "memory": lambda: memory.measure(_room(directory, "memory"), runs=min(runs, 3), events=sizes.long_events),
        "trials": lambda: end_to_end.measure(_room(directory, "trials"), runs=runs, workload=sizes.workload),
    }
    if sizes.gateway_trials:
        numbers = {"trials": sizes.gateway_trials, "turns": sizes.gateway_turns, "calls": sizes.gateway_calls}
        found["gateway"] = lambda: gateway.measure(_room(directory, "gateway"), runs=runs, **numbers)
    for events in sizes.table_events:
        found[f"tables-{events}"] = partial(_tables, kept, events, runs)
    largest = max(sizes.table_events)
    found["growth"] = lambda: growth.measure(
        _room(directory, "growth"), kept_store(kept, largest), runs=runs, growth=sizes.growth
    )
    return found


def report(chosen: Mapping[str, Callable[[], list[figures.Figure]]], out: TextIO, page: Path | None = None) -> None:
    """Measure the sections, and print the figures of each and write them into the page when it is done."""
    began_s = time.monotonic()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(figures.circumstances(), file=out)
    print(f"load average before: {load}; medians of several runs; ratios within one run", file=out, flush=True)
    for name, measure in chosen.items():
        found = measure()
        print("\n" + "\n".join(figures.lines(found)), file=out, flush=True)
        if page is not None:
            figures.write(page, name, figures.lines(found))
    print(f"\nThe whole measurement took {time.monotonic() - began_s:.0f} s.", file=out)


def _tables(kept: Path, events: int, runs: int) -> list[figures.Figure]:
    return tables.measure(kept_store(kept, events), events, runs=runs)


def _room(directory: Path, name: str) -> Path:
    room = directory / name
    room.mkdir()
    return room


if __name__ == "__main__":
    sys.exit(main())
