"""Format ``tac-evals``: TheAgentCompany's ``eval_<task>.json``, with one result or many combined by task and arm.

Checkpoints and the final score are kept separately, because the benchmark computes the final score from the checkpoints
with its own strategy.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from lhaw_record.recorder.events.values import CONDITIONS, Checkpoint, Task
from lhaw_record.runners.base.text.fields import as_list, as_object, as_text, shown
from lhaw_record.runners.environments.benchmarks.tac.scoring import points_of
from lhaw_record.runners.environments.benchmarks.tac.task import BENCHMARK, GRADER
from lhaw_record.runners.environments.grading.grade import CheckpointResult
from lhaw_record.runners.imports.foreign_trial import (
    Failure,
    Finish,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    converted,
    counted,
    imported_task,
)
from lhaw_record.runners.imports.source_files import decode_json

_KEYS = frozenset({"checkpoints", "final_score", "error", "task_id", "score", "total", "timestamp"})
_FULL = ("full", "full_ask_user")


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return the trials of one result file.

    A combined file is an object that maps task to result, or task to arm to result. An arm with the name of a
    full-prompt condition is that condition. Any other arm becomes part of the agent's name.
    """
    del known
    content = decode_json(source)
    if not isinstance(content, dict):
        raise ImportFailed(f"{source.label}: expected an object with checkpoints, or tasks with such objects")
    name = options.agent or (source.folder if _is_single(content) else source.name.rpartition(".")[0])
    remarks: Counter[str] = Counter()

    def convert(found: tuple[str, str, Any]) -> ForeignTrial:
        task_id, arm, given = found
        condition = arm if arm in CONDITIONS else options.condition or "full"
        if condition not in _FULL:
            raise ValueError(f"condition {condition} needs a variant, which the file does not name")
        task, end = _result(task_id, as_object(given, "the result"))
        remarks.update(_remarks(task_id, given))
        return ForeignTrial(
            location=" ".join(filter(None, (source.label, task_id if task_id not in source.name else "", arm))),
            task=task,
            condition=condition,
            agent=f"{name}/{arm}" if arm and arm not in CONDITIONS else name,
            model=name,
            grader=GRADER,
            end=end,
            trial_index=options.trial_index,
        )

    parsed = converted("results", list(_results(source, content)), convert)
    return msgspec.structs.replace(parsed, remarks=tuple(counted(remarks)))


def _is_single(content: Mapping[str, Any]) -> bool:
    return "checkpoints" in content or "final_score" in content


def task_name(text: str) -> str:
    """Return a task's name from the name of its file or image, without ``eval_``, ``.json`` and ``-image``."""
    return text.removeprefix("eval_").removesuffix(".json").removesuffix("-image")


def _results(source: SourceFile, content: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield every (task, arm, result) of a file. The arm is empty if the file has none."""
    if _is_single(content):
        inner = content.get("task_id")
        yield task_name(source.name if source.name.startswith("eval_") else str(inner or source.name)), "", content
        return
    for name, value in content.items():
        if not isinstance(value, dict):
            raise ImportFailed(f"{source.label}: {name!r} is {shown(value)}, expected a result or results by arm")
        if _is_single(value):
            yield task_name(name), "", value
        else:
            yield from ((task_name(name), arm, each) for arm, each in value.items())


def _result(task_id: str, given: Mapping[str, Any]) -> tuple[Task, Finish | Failure]:
    """Return the task, with the point totals from this result, and the outcome."""
    points = [points_of(each, f"checkpoint {n}") for n, each in enumerate(_checkpoints(given), 1)]
    checkpoints = (
        Checkpoint(checkpoint_id=f"c{n}", label=f"checkpoint {n}", total=total)
        for n, (_, total) in enumerate(points, 1)
    )
    task = imported_task(BENCHMARK, task_id, checkpoints=checkpoints)
    if given.get("error") is not None:
        return task, Failure(boundary=None, error_kind="upstream_error", message=str(given["error"]))
    if not points:
        raise ValueError("a result without checkpoints")
    final = _final(given)
    score, total = (None, None) if final is None else points_of(as_object(final, "final_score"), "final_score")
    reached = score == total if total is not None else all(got == of for got, of in points)
    return task, Finish(
        is_success=reached,
        results=tuple(CheckpointResult(checkpoint_id=f"c{n}", score=got) for n, (got, _) in enumerate(points, 1)),
        final_score=score,
        final_total=total,
    )


def _final(given: Mapping[str, Any]) -> Any:
    """Return the final score. Some runners write ``score`` and ``total`` instead."""
    if given.get("final_score") is None and given.get("score") is not None and given.get("total") is not None:
        return {"result": given["score"], "total": given["total"]}
    return given.get("final_score")


def _checkpoints(given: Mapping[str, Any]) -> list[Any]:
    if "checkpoints" not in given and given.get("error") is None:
        raise ValueError("a result without checkpoints")
    return as_list(given.get("checkpoints") or [], "checkpoints")


def _remarks(task_id: str, given: Mapping[str, Any]) -> Iterator[str]:
    inner = given.get("task_id")
    if inner is not None and task_name(as_text(str(inner), "task_id")) != task_id:
        yield f"the result of {task_id} names itself {inner}; the outer name is used"
    for key in sorted(set(given) - _KEYS):
        yield f"key {key!r} of a result is not kept"
    if given.get("timestamp") is not None:
        yield f"{task_id} was evaluated at {given['timestamp']}"
    points = [points_of(each, "checkpoint") for each in given.get("checkpoints") or []]
    final = _final(given)
    if final is not None and given.get("error") is None and points:
        score, total = points_of(final, "final_score")
        if given.get("score") not in (None, score) or given.get("total") not in (None, total):
            yield f"{task_id}: score and total differ from final_score, which is used"
        if score != sum(got for got, _ in points):
            yield "a final score differs from the sum of its checkpoints: the benchmark's scoring strategy"
        if total != sum(of for _, of in points):
            yield f"{task_id}: the final total differs from the sum of the checkpoints' totals"
