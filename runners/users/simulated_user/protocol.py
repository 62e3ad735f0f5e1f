"""The protocol for user simulators, which know what was removed from the prompt and answer questions."""

from collections.abc import Collection
from typing import Protocol, Self

import msgspec

from lhaw_record.recorder.events import ExchangeReading, RejectedAnswer, RevealedSegment
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Variant
from lhaw_record.runners.models.reply_forms import ReplyForm


class AskModel(Protocol):
    """The model behind a simulator. Its calls are recorded."""

    async def __call__(self, system: str, user: str, form: ReplyForm) -> str:
        """Send a system prompt and a user prompt, and return the model's text.

        The text has the given form only if the model takes JSON schemas.

        Raises:
            UserSimulatorError: The model cannot be reached, or its reply was cut twice.
        """
        ...


class UserKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    """What the user had in mind, what they wrote, and the segments they left out (none under ``full_ask_user``).

    ``expected`` holds the questions that the variant's author wrote for its segments. ``revealed`` holds the ids of the
    segments that earlier answers revealed, ``offered`` those that the current question asks for by offering their
    values. ``answer_count`` is the number of answers so far that revealed any. ``after_follow_up`` is the user's
    knowledge after their second request.
    """

    full_prompt: str
    sent_prompt: str
    removed: tuple[Segment, ...]
    expected: tuple[ExpectedQuestions, ...] = ()
    revealed: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()
    answer_count: int = 0
    after_follow_up: "UserKnowledge | None" = None

    @classmethod
    def of_variant(cls, full_prompt: str, variant: Variant | None) -> Self:
        """Return the knowledge of a trial's user: the full prompt, and what was removed from it.

        A user with a follow-up means what they say until they make it; only then do they want what the full prompt
        says.
        """
        if variant is None:
            return cls(full_prompt=full_prompt, sent_prompt=full_prompt, removed=())
        sent, follow_up = variant.prompt, variant.follow_up
        known = cls(
            full_prompt=full_prompt,
            sent_prompt=sent if follow_up is None else f"{sent}\n\n{follow_up}",
            removed=variant.segments,
            expected=variant.expected_questions,
        )
        if follow_up is None:
            return known
        return cls(full_prompt=sent, sent_prompt=sent, removed=(), after_follow_up=known)

    def is_open(self, segment: Segment, asked: Collection[str]) -> bool:
        """Return whether a removed segment may be given to the agent.

        A chained segment may be given once its parent was revealed, or if it is asked for together with its parent.

        Args:
            segment: One of ``removed``.
            asked: The ids of the segments that the current question is about.
        """
        parent = next((each for each in self.removed if each.segment_id == segment.revealed_after), None)
        if parent is None or parent.segment_id in self.revealed:
            return True
        return {segment.segment_id, parent.segment_id} <= set(asked) and self.is_open(parent, asked)


class UserAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, what each judge reads in it, the simulator's own first, and the rejected replies.

    If a person answers, ``by`` is their name, and ``saw_values`` says whether they had the full prompt before them.
    ``is_declined`` says that they do not answer; ``text`` is then what the agent is told.
    """

    text: str
    readings: tuple[ExchangeReading, ...] = ()
    rejected: tuple[RejectedAnswer, ...] = ()
    is_declined: bool = False
    by: str | None = None
    saw_values: bool | None = None

    @property
    def revealed(self) -> tuple[RevealedSegment, ...]:
        """The segments that the answer gives by the simulator's own judge."""
        return tuple(
            RevealedSegment(segment_id=each, is_requested=each in reading.asks_for)
            for reading in self.readings[:1]
            for each in reading.gives
        )

    @property
    def withheld(self) -> tuple[str, ...]:
        """The segments that the answer should have given by the simulator's own judge."""
        return self.readings[0].withheld if self.readings else ()


class UserSimulator(Protocol):
    """A simulated user. If a person answers, the trial waits as long as they take."""

    name: str
    is_person: bool

    async def answer(self, question: str, context: str, knowledge: UserKnowledge) -> UserAnswer:
        """Answer one question.

        Raises:
            UserSimulatorError: The simulator cannot answer. The trial then fails, because an answer is never invented.
        """
        ...
