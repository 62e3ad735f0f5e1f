"""Sealing beside a live event loop: the longest time that the loop stands still while a journal becomes Parquet."""

import asyncio
import time
from pathlib import Path

from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.recorder.writing.stream import Stream
from tests.bench.events import ACTION
from tests.bench.figures import Figure, Limit, figure

BEAT_S = 0.001
CHUNK = 32  # events in one append: the loop itself stands still for less than half a millisecond
MARGIN_BYTES = 40_000  # two chunks: the last ones before the rotation count as sealing


def measure(directory: Path, *, runs: int, journal_bytes: int) -> list[Figure]:
    """Measure the longest block while a full journal is rotated and sealed, and events keep coming.

    Args:
        directory: An empty directory on a real disk.
        runs: Repetitions; the medians are reported.
        journal_bytes: Length at which the journal is rotated and sealed.
    """
    blocks = [asyncio.run(_blocks_ms(directory / f"store-{run}", journal_bytes)) for run in range(runs)]
    return [
        figure(
            "longest block of the event loop while sealing",
            "ms",
            [sealing for _, sealing in blocks],
            baselines=[before for before, _ in blocks],
            baseline_name="the same loop just before",
            limits=[Limit(number=5, unit="ms")],
        )
    ]


async def _blocks_ms(root: Path, journal_bytes: int) -> tuple[float, float]:
    """Return the longest block before sealing, over as long a time as sealing takes, and that while sealing."""
    store = create_store(root)
    late: list[tuple[float, float]] = []
    heart = asyncio.create_task(_beat(late))
    async with StoreRecorder(store, "bench", rotate_bytes=journal_bytes) as recorder:
        stream = recorder.stream("s")
        (journal,) = store.journals().values()
        while journal.stat().st_size < journal_bytes - MARGIN_BYTES:
            await _append_chunk(stream)
        begins_s = time.perf_counter()
        while not store.segment_paths():
            await _append_chunk(stream)
        ends_s = time.perf_counter()
    heart.cancel()
    before = [block_s for at_s, block_s in late if 2 * begins_s - ends_s < at_s < begins_s]
    sealing = [block_s for at_s, block_s in late if begins_s <= at_s < ends_s]
    return max(before, default=0.0) * 1e3, max(sealing, default=0.0) * 1e3


async def _append_chunk(stream: Stream) -> None:
    await stream.append(*(ACTION[index % len(ACTION)](index) for index in range(CHUNK)))


async def _beat(late: list[tuple[float, float]]) -> None:
    """Sleep a millisecond again and again; note when each sleep ended and by how many seconds it was too long."""
    while True:
        began_s = time.perf_counter()
        await asyncio.sleep(BEAT_S)
        now_s = time.perf_counter()
        late.append((now_s, now_s - began_s - BEAT_S))
