"""The JSON that an evaluator leaves: checkpoints and final score, kept apart: a strategy is between them."""

import json
from collections.abc import Sequence
from typing import Any

from recorder.values import Checkpoint
from runners.benchmarks.protocol import CheckpointResult, Grade
from runners.benchmarks.tac.scoring import Points, strategy_of
from runners.errors import GraderError
from runners.imports.fields import as_list, as_number, as_object, shown

_PAGE = "docs/benchmarks/tac.md"


def points_of(value: Any, name: str) -> Points:
    """Return (result, total) of a checkpoint or a final score; ``true`` and ``false`` count as 1 and 0 of one point.

    Raises:
        ValueError: It is neither, or the result is not between 0 and its total.
    """
    given = as_object(value, name)
    total = as_number(given.get("total"), f"{name}: total")
    result = given.get("result")
    if isinstance(result, bool):
        if total != 1:
            raise ValueError(f"{name}: a result of true or false for other than one point")
        return float(result), total
    got = as_number(result, f"{name}: result")
    if total <= 0 or not 0 <= got <= total:
        raise ValueError(f"{name}: a result that is not between 0 and its total")
    return got, total


def grade_of(content: bytes, checkpoints: Sequence[Checkpoint]) -> Grade:
    """Return the grade that an evaluator's file holds.

    Args:
        content: The file.
        checkpoints: Those of the task, whose points must be the evaluator's.

    Raises:
        GraderError: It is no result, tells of an error, or is about other checkpoints than the task's.
    """
    try:
        given = as_object(json.loads(content), "the result")
        if given.get("error") is not None:
            raise GraderError(f"the evaluator gave up: {shown(given['error'])}", kind="evaluator_error")
        points = [
            points_of(each, f"checkpoint {number}")
            for number, each in enumerate(as_list(given.get("checkpoints"), "checkpoints"), start=1)
        ]
        final = points_of(given.get("final_score"), "final_score")
    except (ValueError, RecursionError) as error:
        raise GraderError(f"the evaluator's file is no result: {error}", kind="garbage") from error
    totals = [total for _, total in points]
    if totals != [each.total for each in checkpoints]:
        raise GraderError(
            f"the evaluator grades with {totals} points, the task has {[each.total for each in checkpoints]}; set "
            f"benchmark.checkpoints to what the evaluator says ({_PAGE})",
            kind="other_checkpoints",
            is_retry_owed=False,
        )
    strategy = strategy_of(points, final)
    return Grade(
        results=tuple(
            CheckpointResult(
                checkpoint_id=each.checkpoint_id,
                score=got,
                details=f"{got:g} of {total:g}; final score {final[0]:g} of {final[1]:g} ({strategy})",
            )
            for each, (got, total) in zip(checkpoints, points, strict=True)
        ),
        is_success=final[0] == final[1],
        final_score=final[0],
        final_total=final[1],
    )
