"""The metadata that a run records: its configuration, the machine, new tasks and variants, and how it ended."""

import importlib.metadata
import os
import platform
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import (
    CONTROL_EXPERIMENT,
    NOTES_EXPERIMENT,
    Package,
    RunFinished,
    RunStarted,
    TaskRegistered,
    VariantGenerated,
)
from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.events.run import EXPERIMENT
from lhaw_record.recorder.reading.reader import Snapshot, read_snapshot
from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.segments import list_segments
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.runs.planning.plan import left_out_of
from lhaw_record.runners.runs.planning.variant_sources import has_its_classes
from lhaw_record.runners.runs.preparation import PreparedExperiment
from lhaw_record.runners.runs.scheduler import RunSummary

_RECORDED_PACKAGES = ("lhaw-record", "litellm", "mcp", "anyio", "msgspec", "duckdb", "pyarrow")


async def record_start(
    stream: Stream, prepared: PreparedExperiment, root: Path, index: TrialIndex, run_id: str
) -> None:
    """Record the run's first events: its configuration, then every task and variant that the store lacks.

    A variant whose ambiguity class has changed is registered again, because its digest does not cover the class. The
    class is left out if a selection in this same store has it.
    """
    config_json = prepared.experiment.config_json()
    planned = prepared.plan.trials
    finished_before = sum(trial.trial_id in index.finished for trial in planned)
    started = run_started(run_id, config_json, EXPERIMENT, len(planned), finished_before)
    left_out = tuple(left_out_of(prepared.plan, prepared.experiment, prepared.benchmark))
    await stream.append(msgspec.structs.replace(started, left_out_tasks=left_out))
    tasks = {trial.key.task_digest: trial.task for trial in planned}
    variants = {trial.key.variant_digest: trial.variant for trial in planned if trial.variant}
    task_digests = {trial.key.variant_digest: trial.key.task_digest for trial in planned if trial.variant}
    if has_its_classes(root, prepared.experiment.benchmark, prepared.path.resolve().parent):
        variants = {
            variant_digest: msgspec.structs.replace(variant, ambiguity_class=None, classified_by=None)
            for variant_digest, variant in variants.items()
        }
    await stream.append(
        *(
            TaskRegistered(task=task, task_digest=task_digest)
            for task_digest, task in tasks.items()
            if task_digest not in index.registered
        ),
        *(
            VariantGenerated(variant=variant, variant_digest=variant.variant_digest, task_digest=task_digests[key])
            for key, variant in variants.items()
            if digest(variant) not in index.registered
        ),
    )


def run_finished(run_id: str, summary: RunSummary) -> RunFinished:
    return RunFinished(
        run_id=run_id,
        outcome=summary.outcome,
        trials_finished=summary.finished,
        trials_failed=summary.failed,
        trials_blocked=summary.blocked,
        trials_left=summary.left,
        message="; ".join((*summary.pauses, *summary.repeated)),
    )


def run_started(
    run_id: str, config_json: str, kind: str, planned_trials: int = 0, finished_before: int = 0
) -> RunStarted:
    """Return the first event of a run, with package versions and the machine. ``kind`` is as in :class:`RunStarted`."""
    return RunStarted(
        run_id=run_id,
        config_json=config_json,
        config_digest=digest(config_json),
        code_version=importlib.metadata.version("lhaw-record"),
        packages=tuple(_packages()),
        python_version=platform.python_version(),
        platform=platform.platform(),
        cpu_count=os.cpu_count() or 0,
        planned_trials=planned_trials,
        finished_before=finished_before,
        kind=kind,
    )


def _packages() -> Iterator[Package]:
    for name in _RECORDED_PACKAGES:
        try:
            yield Package(name=name, version=importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue


class WorkCounts(msgspec.Struct):
    """How many items a run has to process, how many it has processed, and how the run ended."""

    to_do: int
    done: int = 0
    failed: int = 0
    outcome: str = "interrupted"


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
    store: Store,
    experiment_id: str,
    kind: str,
    config: Mapping[str, Any],
    counts: WorkCounts,
    *,
    redactor: Redactor | None = None,
) -> AsyncIterator[Stream]:
    """Record the run of one command in one experiment, and yield its stream. The caller holds the experiment's lock.

    However the block ends, ``run_finished`` is recorded with the counts, and small segments are merged. By default, the
    secrets in the environment are redacted.
    """
    redactor = redactor or Redactor(secrets_of(os.environ))
    async with StoreRecorder(store, experiment_id, redactor=redactor) as recorder:
        run_id = f"{experiment_id}-{kind}-{secrets.token_hex(6)}"
        stream = recorder.stream(run_id)
        await stream.append(run_started(run_id, canonical_json(dict(config)).decode(), kind))
        try:
            yield stream
        finally:
            message = f"{counts.done} done, {counts.failed} failed, {counts.to_do - counts.done} left"
            with anyio.CancelScope(shield=True):
                await stream.append(command_finished(run_id, counts.outcome, message))
    with suppress(OSError, StoreError):  # small segments stay whole and readable; the next run merges them
        await anyio.to_thread.run_sync(lambda: compact(store, experiment_id=experiment_id))


def command_finished(run_id: str, outcome: str, message: str = "") -> RunFinished:
    """Return the last event of a run that plans no trials."""
    return RunFinished(
        run_id=run_id,
        outcome=outcome,
        trials_finished=0,
        trials_failed=0,
        trials_blocked=0,
        trials_left=0,
        message=message,
    )
