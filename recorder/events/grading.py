"""Events of grading: one result for each checkpoint, and the artifacts that the results are based on."""

from lhaw_record.recorder.events.identifiers import Sha256
from lhaw_record.recorder.events.values import Event


class CheckpointScored(Event, frozen=True, tag="checkpoint_scored"):
    """A checkpoint got ``score`` of ``total`` points. Grading an attempt again adds results and never replaces any.

    ``graded_stream_id`` names the graded attempt if the result is recorded in another stream, as in a later grading.
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
    """A file that a trial left behind was stored. The bytes were durable in ``STORE/blobs`` before this event."""

    sha256: Sha256
    media_type: str
    size_bytes: int
    role: str
    name: str
