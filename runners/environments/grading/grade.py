"""The result of grading one trial: points for each checkpoint, and the files to keep."""

import msgspec


class CheckpointResult(msgspec.Struct, frozen=True, kw_only=True):
    """The points for one checkpoint, and one sentence that says what the grader saw."""

    checkpoint_id: str
    score: float
    details: str


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file to keep: something that the trial left behind and the grader read."""

    name: str
    role: str
    media_type: str
    content: bytes


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """One result for every checkpoint, success as the benchmark defines it, and a final score if the benchmark has one.

    ``resource_abuse`` names the things that cannot be read within the limits of grading. If it is set, the trial ends
    by ``resource_abuse``, whatever ended the agent's part.
    """

    results: tuple[CheckpointResult, ...]
    is_success: bool
    final_score: float | None = None
    final_total: float | None = None
    artifacts: tuple[Artifact, ...] = ()
    resource_abuse: str | None = None
