"""Whole trials: events per second through the real scheduler, trial runner and agent, with a model that never waits."""

import asyncio
import time
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from lhaw_record.recorder.events import AnyEvent
from lhaw_record.recorder.events.arrow_schema import to_table
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.bench.figures import Figure, Limit, figure
from tests.support.toy_benchmark import ToyExperiment, Workload


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of an experiment took."""

    events: int
    wall_s: float
    cpu_s: float


def measure(directory: Path, *, runs: int, workload: Workload) -> list[Figure]:
    """Measure whole experiments, and the bytes of the last one's store.

    Args:
        directory: An empty directory on a real disk.
        runs: Repetitions; the medians are reported.
        workload: How much there is to do in each.
    """
    recorded, in_memory = [], []
    for run in range(runs):
        root = directory / f"store-{run}"
        recorded.append(asyncio.run(_recorded(root, workload)))
        in_memory.append(asyncio.run(_in_memory(workload)))
    passages = [
        figure(
            "end to end, mock model and tools",
            "events/s",
            [each.events / each.wall_s for each in recorded],
            baselines=[each.events / each.wall_s for each in in_memory],
            baseline_name="the same trials, nothing recorded",
            limits=[Limit(number=5000, is_lowest=True, unit="events/s")],
        ),
        figure(
            "end to end, CPU per event",
            "µs",
            [each.cpu_s / each.events * 1e6 for each in recorded],
            baselines=[each.cpu_s / each.events * 1e6 for each in in_memory],
            baseline_name="the same trials, nothing recorded",
        ),
    ]
    return [*passages, _bytes_figure(root, directory / "plain.parquet")]


async def _recorded(root: Path, workload: Workload) -> Passage:
    experiment = ToyExperiment(workload)
    async with StoreRecorder(create_store(root), "toy") as recorder:
        return await _passage(experiment, _Counting(recorder))


async def _in_memory(workload: Workload) -> Passage:
    return await _passage(ToyExperiment(workload), _Counting(None))


async def _passage(experiment: ToyExperiment, recorder: "_Counting") -> Passage:
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    summary = await experiment.run(recorder)
    passage = Passage(
        events=recorder.events,
        wall_s=time.perf_counter() - began_s,
        cpu_s=time.process_time() - began_cpu_s,
    )
    if summary.outcome != "completed":
        raise RuntimeError(f"the experiment on the toy benchmark ended as {summary.outcome}: {summary.failures[:1]}")
    return passage


class _Counting:
    """A recorder whose events are counted; without one behind it they are dropped."""

    def __init__(self, recorder: StoreRecorder | None) -> None:
        self._recorder = recorder
        self.store = recorder.store if recorder else None
        self.events = 0

    def attempt(self, trial_id: str, number: int) -> "_CountingStream":
        return _CountingStream(self, self._recorder.attempt(trial_id, number) if self._recorder else None)

    def stream(self, stream_id: str) -> "_CountingStream":
        return _CountingStream(self, self._recorder.stream(stream_id) if self._recorder else None)


class _CountingStream:
    """A stream whose events are counted."""

    def __init__(self, counting: _Counting, behind: object) -> None:
        self._counting = counting
        self._behind = behind
        self.elapsed_ms = 0.0

    async def append(self, *events: AnyEvent) -> None:
        self._counting.events += len(events)
        if self._behind is not None:
            await self._behind.append(*events)
        else:
            await asyncio.sleep(0)

    def defer(self, *events: AnyEvent) -> None:
        self._counting.events += len(events)
        if self._behind is not None:
            self._behind.defer(*events)


def _bytes_figure(root: Path, plain: Path) -> Figure:
    """Compare the sealed segments with the same rows as pyarrow writes them by default."""
    envelopes = read_envelopes(root)
    pq.write_table(to_table(envelopes), plain)
    sealed_bytes = sum(path.stat().st_size for path in Store(root).segment_paths())
    return figure(
        "sealed bytes per event, the same trials",
        "bytes",
        [sealed_bytes / len(envelopes)],
        baselines=[plain.stat().st_size / len(envelopes)],
        baseline_name="plain pyarrow Parquet",
    )
