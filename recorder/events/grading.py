"""Grading: one result for each checkpoint, and the artifacts that it was read from."""

from recorder.events._base import Event
from recorder.identifiers import Sha256


class CheckpointScored(Event, frozen=True, tag="checkpoint_scored"):
    """``score`` of ``total`` points for one checkpoint; a later re-grading adds results, never replaces them.

    ``graded_stream_id`` is the attempt where the result stands in another stream, as that of a re-grading does.
    """

    checkpoint_id: str
    label: str
    score: float
    total: float
    details: str
    grader: str
    grading_id: str
    is_primary: bool = True
    graded_stream_id: str | None = None


class ArtifactStored(Event, frozen=True, tag="artifact_stored"):
    """A file that a trial left behind: its bytes lie in ``STORE/blobs`` under their SHA-256, durable before this."""

    sha256: Sha256
    media_type: str
    size_bytes: int
    role: str
    name: str
