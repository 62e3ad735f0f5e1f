"""The recorder with 64 writers: CPU, durable events per second and the wait for an acknowledgement."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.bench.events import ACTION
from tests.bench.figures import Figure, Limit, figure
from tests.bench.group_commit import BareGroupCommit, raw_write_seconds

WRITERS = 64
UNREACHED_BYTES = 1 << 40  # no rotation: sealing is measured apart
SECRETS = ("first-secret-of-a-user", "second-secret-of-a-user", "third-secret-of-a-user")


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of many writers took; the CPU is that of the whole process, both threads."""

    events: int
    wall_s: float
    cpu_s: float
    waits_s: list[float]

    @property
    def per_second(self) -> float:
        """Durable events per second."""
        return self.events / self.wall_s

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU per event."""
        return self.cpu_s / self.events * 1e6

    @property
    def p99_ms(self) -> float:
        """Milliseconds until 99 of 100 events were acknowledged."""
        return p99_ms(self.waits_s)


def p99_ms(waits_s: list[float]) -> float:
    """Return the 99th percentile in milliseconds."""
    return sorted(waits_s)[int(len(waits_s) * 0.99)] * 1e3


def measure(directory: Path, *, runs: int, events_each: int) -> list[Figure]:
    """Measure the recorder and its baselines in turn.

    Args:
        directory: An empty directory on a real disk.
        runs: Repetitions; the medians are reported.
        events_each: Events of each of the 64 writers in one run.
    """
    recorded, bare, raw_p99_ms = [], [], []
    for run in range(runs):
        burst, journal_bytes = asyncio.run(_recorded(directory / f"store-{run}", events_each))
        record = b"\1" * (journal_bytes // burst.events)
        recorded.append(burst)
        bare.append(asyncio.run(_bare(directory / f"bare-{run}", record, events_each)))
        raw_p99_ms.append(p99_ms(raw_write_seconds(directory / f"raw-{run}", events_each, record * WRITERS)))
    return _figures(recorded, bare, raw_p99_ms)


def _figures(recorded: list[Burst], bare: list[Burst], raw_p99_ms: list[float]) -> list[Figure]:
    group_commit = "bare group commit"
    return [
        figure(
            "recorder CPU per event, 64 writers",
            "µs",
            [burst.cpu_us for burst in recorded],
            baselines=[burst.cpu_us for burst in bare],
            baseline_name=group_commit,
            limits=[Limit(number=20, unit="µs")],
        ),
        figure(
            "durable events, 64 writers",
            "/s",
            [burst.per_second for burst in recorded],
            baselines=[burst.per_second for burst in bare],
            baseline_name=group_commit,
            limits=[Limit(number=0.5, of="ratio", is_lowest=True), Limit(number=40_000, is_lowest=True, unit="/s")],
        ),
        figure(
            "acknowledgement p99, 64 writers",
            "ms",
            [burst.p99_ms for burst in recorded],
            baselines=raw_p99_ms,
            baseline_name="write + fdatasync of 64 records",
            limits=[Limit(number=4, of="ratio")],
        ),
        figure(
            "the same of the bare group commit",
            "ms",
            [burst.p99_ms for burst in bare],
            baselines=raw_p99_ms,
            baseline_name="write + fdatasync of 64 records",
        ),
    ]


async def _recorded(root: Path, events_each: int) -> tuple[Burst, int]:
    """Let the recorder take events that the writers make on the way; the burst and the bytes of its journal."""
    async with StoreRecorder(
        create_store(root), "bench", redactor=Redactor(SECRETS), rotate_bytes=UNREACHED_BYTES
    ) as recorder:

        def writer(number: int) -> Callable[[int], Awaitable[None]]:
            stream = recorder.stream(f"{number:032x}-1", trial_id=f"{number:032x}", attempt=1)
            return lambda index: stream.append(ACTION[index % len(ACTION)](index))

        await recorder.stream("warm").append(*(make(0) for make in ACTION))
        burst = await _burst(writer, events_each)
        (journal,) = recorder.store.journals().values()
        return burst, journal.stat().st_size


async def _bare(path: Path, record: bytes, events_each: int) -> Burst:
    commit = BareGroupCommit(path)
    try:
        return await _burst(lambda _: lambda _: commit.append(record), events_each)
    finally:
        commit.close()


async def _burst(writer: Callable[[int], Callable[[int], Awaitable[None]]], events_each: int) -> Burst:
    """Run all writers at once, each waiting for every acknowledgement before it goes on."""
    waits_s: list[float] = []

    async def write(append: Callable[[int], Awaitable[None]]) -> None:
        for index in range(events_each):
            sent_s = time.perf_counter()
            await append(index)
            waits_s.append(time.perf_counter() - sent_s)

    writers = [writer(number) for number in range(WRITERS)]
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(write(append) for append in writers))
    return Burst(
        events=WRITERS * events_each,
        wall_s=time.perf_counter() - began_s,
        cpu_s=time.process_time() - began_cpu_s,
        waits_s=waits_s,
    )
