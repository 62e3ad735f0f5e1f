"""What a grader said as events: a point for each checkpoint, wherever the trial came from."""

from collections.abc import Iterable

from recorder.events import CheckpointScored
from recorder.values import Checkpoint
from runners.benchmarks.protocol import CheckpointResult


def scored(
    results: Iterable[CheckpointResult],
    checkpoints: Iterable[Checkpoint],
    grader: str,
    *,
    grading_id: str = "primary",
    graded_stream_id: str | None = None,
) -> tuple[CheckpointScored, ...]:
    """Return the events of some results, in their order.

    Args:
        results: Each of one of the checkpoints.
        checkpoints: Those of the task.
        grader: Its identity.
        grading_id: Which grading of the trial it is.
        graded_stream_id: The attempt, where the results stand in another stream; then they are not the primary ones.
    """
    by_id = {checkpoint.checkpoint_id: checkpoint for checkpoint in checkpoints}
    return tuple(
        CheckpointScored(
            checkpoint_id=result.checkpoint_id,
            label=by_id[result.checkpoint_id].label,
            score=result.score,
            total=by_id[result.checkpoint_id].total,
            details=result.details,
            grader=grader,
            grading_id=grading_id,
            is_primary=graded_stream_id is None,
            graded_stream_id=graded_stream_id,
        )
        for result in results
    )
