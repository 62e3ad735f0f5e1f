"""What a run records about itself: its configuration, the machine, new tasks and variants, and how it ended."""

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lhaw_record.recorder.events import Package, RunFinished, RunStarted, TaskRegistered, VariantGenerated
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.run import EXPERIMENT
from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.recorder.writing.stream import Stream
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
    await stream.append(run_started(run_id, config_json, EXPERIMENT, len(planned), finished_before))
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
    """Return the last event of a run."""
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
