"""Format ``swebench-pro-results``: ``eval_results.json`` of SWE-bench Pro, which maps instance ids to passed or not.

True means passed. False means failed or not evaluated, because the evaluator also writes false for its own failures. An
instance that is absent has no trial.
"""

from collections.abc import Mapping
from typing import Any

from lhaw_record.recorder.events import Skipped
from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.runners.base.text.fields import literal_or_json, shown
from lhaw_record.runners.environments.grading.grade import CheckpointResult
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    Finish,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    imported_task,
)
from lhaw_record.runners.imports.source_files import decode_json

BENCHMARK = "swebench_pro"
GRADER = "swebench_pro/eval_results"
_RESOLVED = "resolved"


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return one trial for each instance of a run. The agent is ``--agent``, otherwise the name of the file's folder.

    If an earlier import described an instance with an instance file, an import without that file uses the same task.
    """
    content = decode_json(source)
    if not isinstance(content, dict):
        raise ImportFailed(f"{source.label}: expected an object, instance id -> true or false")
    wrong = next((key for key, value in content.items() if not isinstance(value, bool | None)), None)
    if wrong is not None:
        raise ImportFailed(f"{source.label}: {wrong} is {shown(content[wrong])}, expected true or false")
    agent = options.agent or source.folder
    without = sum(value is None for value in content.values())
    instances = options.instances
    trials = tuple(
        _trial(source, agent, instance_id, passed, options.trial_index, _task(source, instance_id, instances, known))
        for instance_id, passed in content.items()
        if passed is not None
    )
    strangers = sum(instance_id not in instances for instance_id in content) if instances is not None else 0
    return ParsedFile(
        trials=trials,
        skipped=(Skipped(kind="instances", count=without, reason="null is not a result"),) if without else (),
        remarks=(
            f"agent {agent!r}; false means failed or not evaluated: the evaluator cannot distinguish them",
            *((f"{strangers} instances are not in the file of instances",) if strangers else ()),
        ),
    )


def _trial(
    source: SourceFile, agent: str, instance_id: str, passed: bool, trial_index: int, task: Task
) -> ForeignTrial:
    return ForeignTrial(
        location=f"{source.label}, {instance_id}",
        task=task,
        condition="full",
        agent=agent,
        model=agent,
        grader=GRADER,
        trial_index=trial_index,
        end=Finish(
            is_success=passed,
            results=(
                CheckpointResult(
                    checkpoint_id=_RESOLVED,
                    score=float(passed),
                    details="passed" if passed else "failed or not evaluated",
                ),
            ),
        ),
    )


def _task(
    source: SourceFile, instance_id: str, instances: Mapping[str, Mapping[str, Any]] | None, known: KnownRecords
) -> Task:
    """Return the task as this import describes it, or as an earlier import described it in full."""
    task = _described(instance_id, (instances or {}).get(instance_id))
    earlier = known.tasks.get((BENCHMARK, instance_id))
    if earlier is None or not _is_imported(earlier) or earlier.task_digest == task.task_digest:
        return task
    if instances is None:
        return earlier
    how = "with another file of instances" if earlier.environment_digest else "without --instances"
    raise ImportFailed(
        f"{source.label}: the store has {instance_id} from an import {how}. Imported in this way it would be another "
        "task, and equal results would count twice; import all results in the same way, into a new store if necessary"
    )


def _is_imported(task: Task) -> bool:
    """Return whether a task comes from this format and not from a run of the benchmark."""
    return task.benchmark_version == UNKNOWN and [each.checkpoint_id for each in task.checkpoints] == [_RESOLVED]


def _described(instance_id: str, instance: Mapping[str, Any] | None) -> Task:
    """Return the task with a single checkpoint, because one boolean does not distinguish individual tests."""
    label = "every fail-to-pass and pass-to-pass test passed"
    if instance is not None:
        label += f" ({_count(instance, 'fail_to_pass')} and {_count(instance, 'pass_to_pass')} tests)"
    given = instance or {}
    return imported_task(
        BENCHMARK,
        instance_id,
        str(given.get("problem_statement") or ""),
        (Checkpoint(checkpoint_id=_RESOLVED, label=label),),
        environment_digest=str(given.get("base_commit") or ""),
        domain=str(given["repo"]) if given.get("repo") else None,
    )


def _count(instance: Mapping[str, Any], column: str) -> int:
    """Return the number of tests in a column, whose cell holds a list, or text with JSON or a Python literal."""
    try:
        names = literal_or_json(instance.get(column) or [], column)
    except ValueError as error:
        raise ImportFailed(f"instance {instance['instance_id']}: {error}") from error
    if not isinstance(names, list):
        raise ImportFailed(f"instance {instance['instance_id']}: {column} is not a list of tests")
    return len(names)
