"""Memory of a long recording: what the process holds after a million events, beside what it held after a tenth."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.figures import Figure, Limit, figure

CHUNK = 32

CHILD = """
import asyncio, sys
from pathlib import Path
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from tests.bench.events import ACTION
from tests.bench.memory import CHUNK, resident_mib

async def record(root, events):
    async with StoreRecorder(create_store(root), "bench") as recorder:
        streams = [recorder.stream(f"{number:032x}-1") for number in range(64)]
        for done in range(0, events, CHUNK * len(streams)):
            if done <= events // 10 < done + CHUNK * len(streams):
                print(resident_mib())
            await asyncio.gather(*(s.append(*(ACTION[i % 4](i) for i in range(CHUNK))) for s in streams))
        print(resident_mib())

asyncio.run(record(Path(sys.argv[1]), int(sys.argv[2])))
"""


def measure(directory: Path, *, runs: int, events: int) -> list[Figure]:
    """Measure the recorder's own process, in a process of its own.

    Args:
        directory: An empty directory on a real disk.
        runs: Repetitions; the medians are reported.
        events: How many events are recorded in each, through several rotations.
    """
    pairs = [_resident(directory / f"store-{run}", events) for run in range(runs)]
    return [kept(f"resident memory after {events:,} events", pairs, [Limit(number=1.1, of="ratio")])]


def kept(name: str, pairs: Sequence[Sequence[float]], limits: Sequence[Limit] = ()) -> Figure:
    """Return what a process holds at the end, MiB, beside what it held after a tenth of the work, run by run."""
    early, after = zip(*pairs, strict=True)
    return figure(name, "MiB", after, baselines=early, baseline_name="after a tenth of them", limits=limits)


def resident_mib() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / (1 << 20)


def _resident(root: Path, events: int) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(root), str(events)], capture_output=True, text=True, check=True
    )
    early, after = map(float, done.stdout.split())
    return early, after
