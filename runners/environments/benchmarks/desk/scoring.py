"""Scores the checkpoints of a desk task by running the check of each one."""

import msgspec

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskCheckpoint, DeskTask
from lhaw_record.runners.environments.grading.grade import CheckpointResult, Grade


def grade_desk(left: OfficeDeliverables, task: DeskTask) -> Grade:
    """Grade what an agent left behind. Success requires all points. This function runs in a child process.

    Raises:
        Exception: A check is faulty and raised this error. The caller attributes it to the grader.
    """
    results = tuple(_result(item, left, task.parameters) for item in task.checkpoints)
    is_success = all(result.score >= item.total for result, item in zip(results, task.checkpoints, strict=True))
    return Grade(results=results, is_success=is_success, artifacts=left.artifacts(task.build(task.parameters)))


def _result(checkpoint: DeskCheckpoint, left: OfficeDeliverables, parameters: msgspec.Struct) -> CheckpointResult:
    try:
        details, score = checkpoint.check(left, parameters), checkpoint.total
    except CheckpointNotMet as unmet:
        details, score = str(unmet), unmet.score
    return CheckpointResult(checkpoint_id=checkpoint.checkpoint_id, score=score, details=details)
