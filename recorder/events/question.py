"""Questions to the simulated user, counted at the ask_user server whatever the client calls the tool."""

from recorder.events._base import Event
from recorder.values import Value


class RevealedSegment(Value, frozen=True):
    """A removed segment that an answer gave away: on request, or volunteered."""

    segment_id: str
    is_requested: bool


class QuestionAsked(Event, frozen=True, tag="question_asked"):
    """One call of the ask_user tool, recorded before it is answered."""

    question_id: str
    question: str
    context: str = ""
    call_id: str | None = None
    action_index: int | None = None


class QuestionAnswered(Event, frozen=True, tag="question_answered"):
    """The simulated user's reply and what it revealed: ``()`` is nothing, None is unknown.

    ``answer`` and ``latency_ms`` are None where a source does not tell them.
    """

    question_id: str
    answer: str | None
    simulator: str
    latency_ms: float | None
    revealed: tuple[RevealedSegment, ...] | None = ()
