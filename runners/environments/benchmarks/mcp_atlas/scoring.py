"""Turn the scores of an MCP-Atlas task's claims, from ``claims.py`` (rules) or ``judge.py``, into a grade."""

from collections.abc import Sequence

from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import (
    PASS_COVERAGE,
    ClaimScore,
    coverage_of,
    match_left,
)
from lhaw_record.runners.environments.grading.deliverables import Deliverables
from lhaw_record.runners.environments.grading.grade import CheckpointResult, Grade


def grade_claims(left: Deliverables, task: Task) -> Grade:
    """Grade a final answer with the matcher; runs in the child."""
    return grade_of(task, match_left(left, [checkpoint.label for checkpoint in task.checkpoints], task.prompt))


def grade_of(task: Task, scores: Sequence[ClaimScore]) -> Grade:
    """Return the grade: one result for each claim, and success from a coverage of 0.75 on."""
    coverage = coverage_of([score.score for score in scores])
    results = tuple(
        CheckpointResult(checkpoint_id=checkpoint.checkpoint_id, score=score.score, details=score.reason)
        for checkpoint, score in zip(task.checkpoints, scores, strict=True)
    )
    return Grade(results=results, is_success=coverage >= PASS_COVERAGE, final_score=coverage, final_total=1.0)
