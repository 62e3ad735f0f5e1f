"""The result of grading one trial: points for each checkpoint, the files to keep, and the events that record them."""

import math
from collections.abc import Iterable

import msgspec

from lhaw_record.recorder.events import CheckpointScored
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.encoding import valid_text
from lhaw_record.recorder.events.values import Checkpoint
from lhaw_record.runners.base.errors import GraderError

_SHOWN_CHARACTERS = 2000


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True):
    """The points for one checkpoint, and one sentence about the grader's finding."""

    checkpoint_id: str
    score: float
    details: str = ""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file to keep, which the trial left behind and the grader read."""

    name: str
    role: str
    media_type: str
    content: bytes

    @classmethod
    def of_json(cls, name: str, role: str, value: object) -> "Artifact":
        """Return a value as a file in canonical JSON."""
        return cls(name=name, role=role, media_type="application/json", content=canonical_json(value))


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """One result per checkpoint, success as the benchmark defines it, and the benchmark's final score, if it has one.

    ``resource_abuse`` names the items that cannot be read within the grading limits. If it is set, the trial ends by
    ``resource_abuse``, however the agent ended.
    """

    results: tuple[CheckpointResult, ...]
    is_success: bool
    final_score: float | None = None
    final_total: float | None = None
    artifacts: tuple[Artifact, ...] = ()
    resource_abuse: str | None = None


def failed_grade(checkpoints: Iterable[Checkpoint], reason: str, abuse: str | None = None) -> Grade:
    """Return a grade in which every checkpoint fails for the same reason.

    ``abuse`` names the items that cannot be read within the limits, or is None.
    """
    results = tuple(
        CheckpointResult(checkpoint_id=each.checkpoint_id, score=0.0, details=reason) for each in checkpoints
    )
    return Grade(results=results, is_success=False, resource_abuse=abuse)


def checked(grade: Grade, checkpoints: Iterable[Checkpoint]) -> Grade:
    """Check that a grade can be recorded, and return it with shortened details.

    Every checkpoint must occur once, with a score between 0 and its total.
    """
    totals = {checkpoint.checkpoint_id: checkpoint.total for checkpoint in checkpoints}
    found = {result.checkpoint_id for result in grade.results}
    if found != totals.keys() or len(grade.results) != len(totals):
        missing = ", ".join(sorted(totals.keys() ^ found))
        raise GraderError(f"the grader did not score every checkpoint once: {missing}", kind="incomplete")
    for result in grade.results:
        if not 0 <= result.score <= totals[result.checkpoint_id]:  # NaN fails the comparison too
            raise GraderError(
                f"the grader gave checkpoint {result.checkpoint_id} {result.score} of "
                f"{totals[result.checkpoint_id]} points",
                kind="impossible_score",
                is_retry_owed=False,
            )
    for score in (grade.final_score, grade.final_total):
        if score is not None and not math.isfinite(score):
            raise GraderError(f"the grader gave a final score of {score}", kind="impossible_score", is_retry_owed=False)
    return with_plain_details(grade)


def scored(
    results: Iterable[CheckpointResult],
    checkpoints: Iterable[Checkpoint],
    grader: str,
    *,
    grading_id: str = "primary",
    graded_stream_id: str | None = None,
) -> tuple[CheckpointScored, ...]:
    """Return the events that record the results, in the same order."""
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


def with_plain_details(grade: Grade) -> Grade:
    results = tuple(msgspec.structs.replace(each, details=plain(each.details)) for each in grade.results)
    return msgspec.structs.replace(grade, results=results)


def plain(details: str) -> str:
    """Return a text that may quote an agent, truncated and in valid UTF-8."""
    if len(details) > _SHOWN_CHARACTERS:
        details = f"{details[:_SHOWN_CHARACTERS]} … ({len(details)} characters)"
    return valid_text(details)
