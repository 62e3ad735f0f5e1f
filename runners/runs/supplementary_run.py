"""A run that adds results to finished trials. It has its own stream, and holds the lock of their experiment."""

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import anyio.to_thread

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import CONTROL_EXPERIMENT, NOTES_EXPERIMENT, RunFinished
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.reading.reader import Snapshot, read_snapshot
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.segments import list_segments
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.runs.run_record import run_started


class Counts:
    """How many items a run has to process, how many it has processed, and how the run ended."""

    def __init__(self, to_do: int) -> None:
        self.to_do = to_do
        self.done = 0
        self.failed = 0
        self.outcome = "interrupted"


def experiments_of(store: Store, chosen: str | None) -> tuple[str, ...]:
    unsealed = read_snapshot(store.root).open_rows["experiment_id"].to_pylist()
    sealed = {segment.experiment_id for segment in list_segments(store).chosen}
    found = sorted((sealed | set(unsealed)) - {CONTROL_EXPERIMENT, NOTES_EXPERIMENT})  # they have no trials
    if chosen is not None and chosen not in found:
        raise ExperimentError(f"{store.name} has no experiment {chosen!r}; it has {', '.join(found) or 'none'}")
    return tuple(found) if chosen is None else (chosen,)


@contextmanager
def held(store: Store, experiment_ids: Sequence[str]) -> Iterator[Snapshot]:
    """Hold the locks of experiments, close what dead runs left open, and yield a snapshot of the store."""
    with ExitStack() as locks:
        for experiment_id in experiment_ids:
            locks.enter_context(store.hold_experiment(experiment_id))
            recover(store, experiment_id=experiment_id)
        yield read_snapshot(store.root)


@asynccontextmanager
async def recorded_run(
    store: Store, experiment_id: str, kind: str, config: Mapping[str, Any], counts: Counts, *, redactor: Redactor
) -> AsyncIterator[Stream]:
    """Record the run of one command in one experiment, and yield its stream. The caller holds the experiment's lock.

    However the block ends, ``run_finished`` is recorded with the counts, and small segments are merged.
    """
    async with StoreRecorder(store, experiment_id, redactor=redactor) as recorder:
        run_id = f"{experiment_id}-{kind}-{secrets.token_hex(6)}"
        stream = recorder.stream(run_id)
        await stream.append(run_started(run_id, canonical_json(dict(config)).decode(), kind))
        try:
            yield stream
        finally:
            with anyio.CancelScope(shield=True):
                await stream.append(_finished(run_id, counts))
    with suppress(OSError, StoreError):  # small segments stay whole and readable; the next run merges them
        await anyio.to_thread.run_sync(lambda: compact(store, experiment_id=experiment_id))


def _finished(run_id: str, counts: Counts) -> RunFinished:
    left = counts.to_do - counts.done
    return RunFinished(
        run_id=run_id,
        outcome=counts.outcome,
        trials_finished=0,
        trials_failed=0,
        trials_blocked=0,
        trials_left=0,
        message=f"{counts.done} done, {counts.failed} failed, {left} left",
    )
