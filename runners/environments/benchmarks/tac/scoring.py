"""Read the JSON result of an evaluator: checkpoint points, the final score, and the strategy that connects them."""

import json
from collections.abc import Sequence
from typing import Any

from lhaw_record.recorder.events.values import Checkpoint
from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.base.text.fields import as_list, as_number, as_object, shown
from lhaw_record.runners.environments.benchmarks.protocol import CheckpointResult, Grade

PLAIN = "plain_sum"
UNKNOWN = "unknown"
Points = tuple[float, float]
"""The points of a checkpoint or of the final score: (result, total)."""


def strategy_of(checkpoints: Sequence[Points], final: Points) -> str:
    """Return the first strategy that computes the final score from the checkpoints, trying the plain sum first.

    Of 175 published tasks, 113 use the plain sum, 45 ``bonus_for_completing_final``, 14 ``bonus_for_completing_any``
    and 3 others. With two of those, completing any of a few given checkpoints has the effect of completing any one, and
    with the other, completing the last two has the effect of completing the final one. The result is ``unknown`` if no
    strategy explains the final score.
    """
    total = sum(of for _, of in checkpoints)
    if final[1] != total:
        return UNKNOWN
    reached = sum(got for got, _ in checkpoints)
    full = [got == of for got, of in checkpoints]
    first_full = reached - checkpoints[0][0] + checkpoints[0][1]
    possible = (
        (PLAIN, reached, True),
        ("bonus_for_completing_final", total, full[-1]),
        ("bonus_for_completing_any", first_full, any(full)),
    )
    return next((name for name, score, does_apply in possible if does_apply and score == final[0]), UNKNOWN)


_PAGE = "docs/benchmarks/tac.md"


def points_of(value: Any, name: str) -> Points:
    """Return (result, total) of a checkpoint or a final score. For one point, ``true`` and ``false`` count as 1 and 0.

    Raises:
        ValueError: The value is invalid, or the result is not between 0 and its total.
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
    """Return the grade in an evaluator's result file.

    Args:
        content: The content of the file.
        checkpoints: The task's checkpoints. Their points must equal the evaluator's.

    Raises:
        GraderError: The file is not a result, reports an error, or has other checkpoints than the task.
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
        raise GraderError(f"the evaluator's file is not a result: {error}", kind="garbage") from error
    totals = [total for _, total in points]
    if totals != [each.total for each in checkpoints]:
        raise GraderError(
            f"the evaluator grades with {totals} points, but the task has {[each.total for each in checkpoints]}; "
            f"set benchmark.checkpoints to the evaluator's points ({_PAGE})",
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
