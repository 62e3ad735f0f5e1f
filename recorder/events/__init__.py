"""The closed union of everything that is ever recorded, and the envelope around each event."""

import msgspec

from recorder.events._base import Event
from recorder.events.action import ActionFinished, ActionStarted
from recorder.events.control import (
    CONTROL,
    CONTROL_EXPERIMENT,
    ExperimentCancelled,
    ExperimentPaused,
    ExperimentRequeued,
    ExperimentResumed,
    ExperimentRetuned,
    ExperimentSubmitted,
)
from recorder.events.generation import (
    BenchmarkSelected,
    Excluded,
    FailedCheck,
    Quota,
    RejectedSegment,
    SegmentsExtracted,
    SelectedVariant,
    VariantRejected,
)
from recorder.events.grading import ArtifactStored, CheckpointScored
from recorder.events.importing import ImportRecorded, Skipped, Understood
from recorder.events.injection import AnchorLost, ClarificationInjected, InjectionReapplied
from recorder.events.judging import JudgedFlag, NewTaskJudged, QuestionJudged
from recorder.events.model import ModelCalled, ModelFailed, ModelResponded, RepliedToolCall
from recorder.events.question import QuestionAnswered, QuestionAsked, RevealedSegment
from recorder.events.run import OracleBudgetSet, Package, RunFinished, RunStarted
from recorder.events.task import TaskRegistered, VariantGenerated
from recorder.events.trial import TrialFailed, TrialFinished, TrialStarted
from recorder.identifiers import Attempt, ExperimentId, Microseconds, Name, Nanoseconds, Sequence

AnyEvent = (
    RunStarted
    | RunFinished
    | OracleBudgetSet
    | TaskRegistered
    | VariantGenerated
    | TrialStarted
    | TrialFinished
    | TrialFailed
    | ModelCalled
    | ModelResponded
    | ModelFailed
    | ActionStarted
    | ActionFinished
    | QuestionAsked
    | QuestionAnswered
    | ClarificationInjected
    | CheckpointScored
    | ArtifactStored
    | ImportRecorded
    | QuestionJudged
    | NewTaskJudged
    | SegmentsExtracted
    | VariantRejected
    | BenchmarkSelected
    | AnchorLost
    | InjectionReapplied
    | ExperimentSubmitted
    | ExperimentPaused
    | ExperimentResumed
    | ExperimentCancelled
    | ExperimentRetuned
    | ExperimentRequeued
)

EVENT_TYPES: tuple[type[Event], ...] = AnyEvent.__args__


def type_name(event_type: type[Event]) -> str:
    """Return the name on the wire, for example ``trial_started`` for ``TrialStarted``."""
    return str(event_type.__struct_config__.tag)


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record: (stream_id, sequence) is its identity; order is defined within a stream only.

    ``recorded_at_us`` is UTC in microseconds since the epoch; ``elapsed_ns`` is monotonic since the stream began. Ids
    and numbers are checked when a record is decoded, as ``recorder/identifiers.py`` says: its author may be anybody.
    """

    stream_id: Name
    sequence: Sequence
    recorded_at_us: Microseconds
    elapsed_ns: Nanoseconds
    writer_id: Name
    experiment_id: ExperimentId
    event: AnyEvent
    trial_id: Name | None = None
    attempt: Attempt | None = None
    version: Attempt = 1

    @property
    def began_at_us(self) -> int:
        """When its stream began, by the clock of the writer."""
        return self.recorded_at_us - self.elapsed_ns // 1000


__all__ = [
    "CONTROL",
    "CONTROL_EXPERIMENT",
    "EVENT_TYPES",
    "ActionFinished",
    "ActionStarted",
    "AnchorLost",
    "AnyEvent",
    "ArtifactStored",
    "BenchmarkSelected",
    "CheckpointScored",
    "ClarificationInjected",
    "Envelope",
    "Event",
    "Excluded",
    "ExperimentCancelled",
    "ExperimentPaused",
    "ExperimentRequeued",
    "ExperimentResumed",
    "ExperimentRetuned",
    "ExperimentSubmitted",
    "FailedCheck",
    "ImportRecorded",
    "InjectionReapplied",
    "JudgedFlag",
    "ModelCalled",
    "ModelFailed",
    "ModelResponded",
    "NewTaskJudged",
    "OracleBudgetSet",
    "Package",
    "QuestionAnswered",
    "QuestionAsked",
    "QuestionJudged",
    "Quota",
    "RejectedSegment",
    "RepliedToolCall",
    "RevealedSegment",
    "RunFinished",
    "RunStarted",
    "SegmentsExtracted",
    "SelectedVariant",
    "Skipped",
    "TaskRegistered",
    "TrialFailed",
    "TrialFinished",
    "TrialStarted",
    "Understood",
    "VariantGenerated",
    "VariantRejected",
    "type_name",
]
