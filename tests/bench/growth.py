"""How cost grows: with the length of a trial, the size of its results, and the number of trials that are there already.

An exponent of 1 is linear: ten times the events cost ten times as much. It is the slope of the logarithms.
"""

import asyncio
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.trial_index import load_trial_index
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.bench.cold import PROGRAM, run
from tests.bench.figures import Figure, Limit, figure
from tests.bench.memory import kept, resident_mib
from tests.support.toy_benchmark import ToyExperiment, Workload

_LINEAR = Limit(number=1.1, unit="")
_AGAIN = Limit(number=2, unit="s")
_MEMORY = Limit(number=1.1, of="ratio")
_CONDITIONS = 3


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: turns of a trial, characters of a result, and how many trials a store has."""

    turns: tuple[int, ...] = (15, 150, 1_500)
    result_characters: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    trials: int = 10_000


def measure(directory: Path, store: Path, *, runs: int, growth: Growth) -> list[Figure]:
    """Measure on a real disk.

    Args:
        directory: An empty directory.
        store: A store of many trials, for the report.
        runs: Repetitions; the medians are reported.
        growth: How far.
    """
    most = max(growth.turns)
    by_turns = {
        turns: Workload(tasks=1, trials=max(1, 2 * most // turns), actions=turns, concurrency=2)
        for turns in growth.turns
    }
    by_size = {
        size: Workload(tasks=1, trials=max(1, max(growth.result_characters) // size), actions=3, result_characters=size)
        for size in growth.result_characters
    }
    return [
        *_exponents(directory, "turns", by_turns, runs),
        *_exponents(directory, "characters of a result", by_size, runs),
        *_many(directory, growth.trials, min(runs, 3)),
        *_report(store, min(runs, 3)),
    ]


def _exponents(directory: Path, what: str, workloads: dict[int, Workload], runs: int) -> list[Figure]:
    """Return the CPU of a trial of each size, and how it grows from the smallest to each."""
    seconds: dict[int, list[float]] = {size: [] for size in workloads}
    for _ in range(runs):
        for size, workload in workloads.items():
            seconds[size].append(_cpu_s(directory, workload) / (workload.trials * _CONDITIONS))
    smallest, *larger = seconds
    found = [
        figure(f"CPU of a trial, {size:,} {what}", "ms", [1e3 * s for s in each]) for size, each in seconds.items()
    ]
    for size in larger:
        pairs = zip(seconds[smallest], seconds[size], strict=True)
        slopes = [math.log(large / small) / math.log(size / smallest) for small, large in pairs]
        found.append(figure(f"exponent, {smallest:,} to {size:,} {what}", "", slopes, limits=[_LINEAR]))
    return found


def _cpu_s(directory: Path, workload: Workload) -> float:
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        root = Path(folder) / "store"
        began_s = time.process_time()
        asyncio.run(_recorded(root, workload))
        taken_s = time.process_time() - began_s
        finished = load_trial_index(read_snapshot(root), "toy").finished.values()
        assert {each.action_count for each in finished} == {workload.actions}, (
            "a trial that a limit ends is another one"
        )
    return taken_s


async def _recorded(root: Path, workload: Workload) -> None:
    async with StoreRecorder(create_store(root), "toy") as recorder:
        await ToyExperiment(workload).run(recorder)


def _many(directory: Path, trials: int, runs: int) -> list[Figure]:
    """Return the memory of a run of many trials, and what the same run costs when all are finished."""
    pairs, again = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            command = [sys.executable, "-m", "tests.bench.growth", folder, str(trials)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        *memory, seconds = map(float, done.stdout.split())
        pairs.append(memory)
        again.append(seconds)
    return [
        kept(f"resident memory after {trials:,} trials", pairs, [_MEMORY]),
        figure(f"the same again, {trials:,} finished trials", "s", again, limits=[_AGAIN]),
    ]


def _report(store: Path, runs: int) -> list[Figure]:
    trials = len(load_trial_index(read_snapshot(store), "synthetic").finished)
    taken, sizes = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            taken.append(run([*PROGRAM, "report", str(store), "--output", str(page)])[0])
            sizes.append(page.stat().st_size / 1e6)
    name = f"report of {trials:,} trials"
    return [
        figure(name, "s", [each.wall_s for each in taken]),
        figure(f"{name}, peak memory", "GiB", [each.peak_bytes / (1 << 30) for each in taken]),
        figure(f"{name}, the page", "MB", sizes),
    ]


async def _run_twice(root: Path, trials: int) -> None:
    """Print the resident memory after a tenth of the trials and after all, and how long the same run takes again."""
    for number, count in enumerate((trials // 10, trials)):
        workload = Workload(tasks=10, trials=count // (10 * _CONDITIONS), actions=3)
        async with StoreRecorder(create_store(root / str(number)), "toy") as recorder:
            await ToyExperiment(workload).run(recorder)
        sys.stdout.write(f"{resident_mib()}\n")
    began_s = time.perf_counter()
    store = Store(root / "1")
    experiment = ToyExperiment(workload)
    async with StoreRecorder(store, "toy") as recorder:
        summary = await experiment.run(recorder, load_trial_index(read_snapshot(root / "1"), "toy"))
    sys.stdout.write(f"{time.perf_counter() - began_s}\n")
    assert summary.outcome == "completed"


if __name__ == "__main__":
    asyncio.run(_run_twice(Path(sys.argv[1]), int(sys.argv[2])))
