"""What an attempt showed of its model and its simulated user, counted from its events for the summary of a run.

The tables count the same from the store; this is what a user sees at once, without a database.
"""

import hashlib
import re
from collections import Counter

import msgspec

from lhaw_record.recorder.events import (
    ActionStarted,
    AnyEvent,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
)
from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.runners.base.conversation.ending import CUT

_NO_WORD = re.compile(r"[\W_]+")


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one attempt. ``actions_digest`` is equal for attempts that made the same tool calls in the same order.

    ``calls_in_text`` has the notations of tool calls that replies left in their text, and how many did.
    ``unknown_cost_calls`` counts failed calls that were perhaps paid for. ``crash`` is the exit code other than 0 with
    which a program gave up, and the last line of its stderr, which may hold secrets.
    """

    ended_by: EndedBy | None
    reply_count: int
    cut_count: int
    calls_in_text: dict[str, int]
    tool_call_count: int
    actions_digest: str
    question_count: int
    revealed_count: int
    echo_count: int
    unknown_cost_calls: int = 0
    crash: tuple[int, str] | None = None


class BehaviourCounter:
    """Counts what one attempt's events show, once they are durable."""

    def __init__(self) -> None:
        self._side_calls: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._notations: Counter[str] = Counter()
        self._actions = hashlib.sha256()
        self._questions: dict[str, str] = {}

    def behaviour(self, ended_by: EndedBy | None, crash: tuple[int, str] | None = None) -> Behaviour:
        """Return the counts so far."""
        return Behaviour(
            ended_by=ended_by,
            reply_count=self._counts["replies"],
            cut_count=self._counts["cut"],
            calls_in_text=dict(self._notations),
            tool_call_count=self._counts["tool_calls"],
            actions_digest=self._actions.hexdigest(),
            question_count=self._counts["answers"],
            revealed_count=self._counts["revealed"],
            echo_count=self._counts["echoes"],
            unknown_cost_calls=self._counts["unknown_costs"],
            crash=crash,
        )

    def observe(self, event: AnyEvent) -> None:
        """Count one event."""
        if isinstance(event, ModelCalled):
            if event.call_kind in ("side", "sub_agent"):
                self._side_calls.add(event.call_id)
        elif isinstance(event, ModelResponded):
            if event.role == "agent" and event.call_id not in self._side_calls:
                self._counts["replies"] += 1
                self._counts["cut"] += event.finish_reason == CUT
                self._notations.update([event.wire.call_in_text] if event.wire and event.wire.call_in_text else [])
        elif isinstance(event, ModelFailed):
            self._counts["unknown_costs"] += event.has_unknown_cost
        elif isinstance(event, ActionStarted):
            self._counts["tool_calls"] += event.kind != "text"
            self._actions.update(f"{event.kind}\n{event.name}\n{event.arguments_json}\n".encode())
        elif isinstance(event, QuestionAsked):
            self._questions[event.question_id] = event.question
        elif isinstance(event, QuestionAnswered) and event.answer is not None:
            self._counts["answers"] += 1
            self._counts["revealed"] += len(event.revealed or ())
            self._counts["echoes"] += is_echo(self._questions.get(event.question_id, ""), event.answer)


def is_echo(question: str, answer: str) -> bool:
    """Return whether an answer is the question again, apart from signs and up to a fifth of its length."""
    asked, said = (_NO_WORD.sub("", text.lower()) for text in (question, answer))
    is_as_long = 0.8 * len(asked) <= len(said) <= 1.2 * len(asked)
    return bool(asked) and is_as_long and (asked in said or said in asked)
