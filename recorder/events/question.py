"""Events of questions to the simulated user.

Questions are counted at the ask_user server, so the name that a client gives the tool does not matter.
"""

from lhaw_record.recorder.events.values import Event, Value


class RevealedSegment(Value, frozen=True):
    """A removed segment that an answer revealed. ``is_requested`` says whether the agent had asked for it."""

    segment_id: str
    is_requested: bool


class RejectedAnswer(Value, frozen=True):
    """A reply of the simulated user's model that the agent did not get, and what was wrong with it.

    ``problem`` is ``empty``, ``echo`` (it repeats the question), ``withheld`` or ``volunteered``.
    """

    text: str
    problem: str


class QuestionAsked(Event, frozen=True, tag="question_asked"):
    """The agent called the ask_user tool. The question is recorded before it is answered."""

    question_id: str
    question: str
    context: str = ""
    call_id: str | None = None
    action_index: int | None = None


class QuestionAnswered(Event, frozen=True, tag="question_answered"):
    """The simulated user answered a question. ``revealed`` is ``()`` if nothing was revealed, None if unknown.

    ``answer`` and ``latency_ms`` are None if the source of an imported trial lacks them. ``withheld`` has the ids of
    the removed segments that the question asks for and the answer lacks, None if unknown. ``rejected`` has the replies
    that did not pass the checks of the ``llm`` simulator.
    """

    question_id: str
    answer: str | None
    simulator: str
    latency_ms: float | None
    revealed: tuple[RevealedSegment, ...] | None = ()
    withheld: tuple[str, ...] | None = None
    rejected: tuple[RejectedAnswer, ...] = ()
