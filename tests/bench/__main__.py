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

from tests.bench import end_to_end, figures, recording, sealing, tables
from tests.support.toy_benchmark import Workload


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    runs: int
    events_each: int
    journal_bytes: int
    workload: Workload


FULL = Sizes(runs=5, events_each=300, journal_bytes=8 << 20, workload=Workload())
QUICK = Sizes(
    runs=1, events_each=8, journal_bytes=200_000, workload=Workload(tasks=1, trials=3, actions=3, concurrency=4)
)


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Measure and print; 0 even when a budget is exceeded, because times on a shared machine decide nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure speed and size.")
    parser.add_argument("--quick", action="store_true", help="one short run of everything, to see that it works")
    parser.add_argument("--directory", type=Path, default=Path("stores"), help="a directory on a real disk")
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as temporary:
        report(Path(temporary), QUICK if options.quick else FULL, out)
    return 0


def report(directory: Path, sizes: Sizes, out: TextIO) -> None:
    """Measure in a directory and print the table."""
    began_s = time.monotonic()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} CPUs, {platform.platform()}", file=out)
    print(f"load average before: {load}; medians of {sizes.runs} run(s); ratios within one run\n", file=out)
    measured = recording.measure(_room(directory, "recording"), runs=sizes.runs, events_each=sizes.events_each)
    measured += sealing.measure(_room(directory, "sealing"), runs=sizes.runs, journal_bytes=sizes.journal_bytes)
    passages, root = end_to_end.measure(_room(directory, "trials"), runs=sizes.runs, workload=sizes.workload)
    small_root = directory / "small"
    end_to_end.record(small_root, QUICK.workload)
    computed, sentence = tables.measure(root, small_root, runs=sizes.runs)
    print("\n".join(figures.lines([*measured, *passages, *computed])), file=out)
    print(f"\n{sentence}\nThe whole measurement took {time.monotonic() - began_s:.0f} s.", file=out)


def _room(directory: Path, name: str) -> Path:
    room = directory / name
    room.mkdir()
    return room


if __name__ == "__main__":
    sys.exit(main())
