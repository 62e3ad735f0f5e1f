"""The union of all event types, and the envelope around every stored event."""

import msgspec

from lhaw_record.recorder.events.generation import (
    BenchmarkSelected,
    Excluded,
    FailedCheck,
    GateJudgement,
    Quota,
    RejectedSegment,
    SegmentsExtracted,
    SelectedVariant,
    TaskRegistered,
    VariantGenerated,
    VariantRejected,
)
from lhaw_record.recorder.events.identifiers import Attempt, ExperimentId, Microseconds, Name, Nanoseconds, Sequence
from lhaw_record.recorder.events.interaction import (
    ActionFinished,
    ActionStarted,
    AnchorLost,
    ApprovalAnswered,
    ClarificationInjected,
    InjectionReapplied,
    QuestionAnswered,
    QuestionAsked,
    QuestionOption,
    RejectedAnswer,
    RevealedSegment,
)
from lhaw_record.recorder.events.judging import (
    EndingJudged,
    ExchangeReading,
    JudgedFlag,
    NewTaskJudged,
    NoteCause,
    QuestionJudged,
    TrialsDiscarded,
    TrialsNoted,
    VariantReviewed,
)
from lhaw_record.recorder.events.model import (
    ModelCalled,
    ModelFailed,
    ModelResponded,
    Reasoning,
    RepliedToolCall,
    Wire,
)
from lhaw_record.recorder.events.run import (
    CONTROL,
    CONTROL_EXPERIMENT,
    NOTES_EXPERIMENT,
    ExperimentCancelled,
    ExperimentPaused,
    ExperimentRequeued,
    ExperimentResumed,
    ExperimentRetuned,
    ExperimentSubmitted,
    ImportRecorded,
    LookTaken,
    OracleBudgetSet,
    Package,
    RunFinished,
    RunStarted,
    Skipped,
    Understood,
)
from lhaw_record.recorder.events.trial import (
    ArtifactStored,
    CheckpointScored,
    TrialFailed,
    TrialFinished,
    TrialFlagged,
    TrialStarted,
)
from lhaw_record.recorder.events.values import Event, Usage

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
    | ApprovalAnswered
    | EndingJudged
    | TrialFlagged
    | ExperimentSubmitted
    | ExperimentPaused
    | ExperimentResumed
    | ExperimentCancelled
    | ExperimentRetuned
    | ExperimentRequeued
    | VariantReviewed
    | TrialsDiscarded
    | TrialsNoted
    | LookTaken
)

EVENT_TYPES: tuple[type[Event], ...] = AnyEvent.__args__


def type_name(event_type: type[Event]) -> str:
    """Return the name of an event type in stored records, for example ``trial_started`` for ``TrialStarted``."""
    return str(event_type.__struct_config__.tag)


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stored record: an event and its context.

    The pair (stream_id, sequence) identifies a record. Records have a defined order only within a stream.

    ``recorded_at_us`` is UTC in microseconds since the epoch. ``elapsed_ns`` is the monotonic time since the stream
    began, in nanoseconds. Ids and numbers are validated when a record is decoded
    (``recorder/events/identifiers.py``), because the author of a record is not trusted.
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
        """The start time of the stream by the writer's clock, in UTC microseconds since the epoch."""
        return self.recorded_at_us - self.elapsed_ns // 1000


__all__ = [
    "CONTROL",
    "CONTROL_EXPERIMENT",
    "EVENT_TYPES",
    "NOTES_EXPERIMENT",
    "ActionFinished",
    "ActionStarted",
    "AnchorLost",
    "AnyEvent",
    "ApprovalAnswered",
    "ArtifactStored",
    "BenchmarkSelected",
    "CheckpointScored",
    "ClarificationInjected",
    "EndingJudged",
    "Envelope",
    "Event",
    "ExchangeReading",
    "Excluded",
    "ExperimentCancelled",
    "ExperimentPaused",
    "ExperimentRequeued",
    "ExperimentResumed",
    "ExperimentRetuned",
    "ExperimentSubmitted",
    "FailedCheck",
    "GateJudgement",
    "ImportRecorded",
    "InjectionReapplied",
    "JudgedFlag",
    "LookTaken",
    "ModelCalled",
    "ModelFailed",
    "ModelResponded",
    "NewTaskJudged",
    "NoteCause",
    "OracleBudgetSet",
    "Package",
    "QuestionAnswered",
    "QuestionAsked",
    "QuestionJudged",
    "QuestionOption",
    "Quota",
    "Reasoning",
    "RejectedAnswer",
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
    "TrialFlagged",
    "TrialStarted",
    "TrialsDiscarded",
    "TrialsNoted",
    "Understood",
    "Usage",
    "VariantGenerated",
    "VariantRejected",
    "VariantReviewed",
    "Wire",
    "type_name",
]
