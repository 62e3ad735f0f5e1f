"""``python -m tests.bench``: measures everything that has a budget and prints it as one table."""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import msgspec

from tests.bench import end_to_end, figures, gateway, memory, recording, sealing, tables
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
)


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Measure and print; 0 even when a budget is exceeded, because times on a shared machine decide nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure speed and size.")
    parser.add_argument("--quick", action="store_true", help="one short run of everything, to see that it works")
    parser.add_argument("--directory", type=Path, default=Path("stores"), help="a directory on a real disk")
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as temporary:
        kept = Path(temporary) if options.quick else KEPT
        report(Path(temporary), kept, QUICK if options.quick else FULL, out)
    return 0


def report(directory: Path, kept: Path, sizes: Sizes, out: TextIO) -> None:
    """Measure in a directory, the tables on a store among those that are kept, and print all figures."""
    began_s = time.monotonic()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} CPUs, {platform.platform()}", file=out)
    print(f"load average before: {load}; medians of {sizes.runs} run(s); ratios within one run\n", file=out)
    measured = recording.measure(_room(directory, "recording"), runs=sizes.runs, events_each=sizes.events_each)
    measured += sealing.measure(_room(directory, "sealing"), runs=sizes.runs, journal_bytes=sizes.journal_bytes)
    measured += memory.measure(_room(directory, "memory"), runs=min(sizes.runs, 3), events=sizes.long_events)
    measured += end_to_end.measure(_room(directory, "trials"), runs=sizes.runs, workload=sizes.workload)
    if sizes.gateway_trials:
        room, trials, turns = _room(directory, "gateway"), sizes.gateway_trials, sizes.gateway_turns
        measured += gateway.measure(room, runs=sizes.runs, trials=trials, turns=turns, calls=sizes.gateway_calls)
    for events in sizes.table_events:
        measured += tables.measure(kept_store(kept, events), events, runs=sizes.runs)
    print("\n".join(figures.lines(measured)), file=out)
    print(f"\nThe whole measurement took {time.monotonic() - began_s:.0f} s.", file=out)


def _room(directory: Path, name: str) -> Path:
    room = directory / name
    room.mkdir()
    return room


if __name__ == "__main__":
    sys.exit(main())
