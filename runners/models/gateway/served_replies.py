"""Remembers the replies that a trial has served, and finds them in later requests.

An agent may invent, split, rewrite or omit assistant turns. A reply is therefore recognised by its tool call ids, else
by its exact text, else by one of its call ids quoted in a text. A thread's last reply can also be recognised by its
position, if everything before it matches the request that it answered.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from lhaw_record.runners.base.conversation.actions import action_count_of
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models.gateway.equality import is_prefix, is_same
from lhaw_record.runners.models.gateway.wires.protocol import RequestTurn

Evidence = Literal["call id", "text", "quoted call id", "place", "quotation"]
_WORD = re.compile(r"[\w-]{4,}")


class ServedReply(msgspec.Struct, frozen=True, kw_only=True):
    """One served reply.

    ``number`` counts the trial's replies. ``request_end`` is the last message of the reply's request.
    """

    number: int
    call_id: str
    thread_id: str
    message: Message
    served_ns: int
    request_end: Message | None = None


class ReplyOccurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request contains a reply: the last turn that is part of it, and what the request shows of each action.

    ``is_present`` is false for a call that the agent omitted. ``results`` holds, for each action, the turn with its
    result, or None. If there are no call ids, one message may contain all results; it counts as the result of the last
    action. A ``quotation`` has no turns of its own: ``told_result`` is the text that follows it, or None.
    """

    reply: ServedReply
    evidence: Evidence
    turn: int
    is_present: tuple[bool, ...]
    results: tuple[int | None, ...]
    told_result: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the request has a result for each of the reply's actions that it contains."""
        if self.evidence == "quotation":
            return True
        if self.evidence != "call id":
            return self.results[-1] is not None
        return all(result is not None for result, present in zip(self.results, self.is_present, strict=True) if present)

    @property
    def end(self) -> int:
        """The last turn that belongs to the reply or to the results of its actions."""
        return max([self.turn, *(result for result in self.results if result is not None)])


class ServedReplies:
    """All replies of one trial, in the order in which they were served."""

    def __init__(self) -> None:
        self.all: list[ServedReply] = []
        self._of_call: dict[str, ServedReply] = {}
        self._of_text: defaultdict[str, list[ServedReply]] = defaultdict(list)

    def add(self, reply: ServedReply) -> None:
        self.all.append(reply)
        for call in reply.message.tool_calls:
            self._of_call[call.call_id] = reply
        self.add_text(reply, reply.message.content)

    def add_text(self, reply: ServedReply, text: str) -> None:
        """Add a text that identifies a reply: its own text, or the agent's version of it."""
        if text.strip():
            known = self._of_text[text.strip()]
            known.append(reply)
            known.sort(key=lambda each: each.number)

    def has_call(self, call_id: str) -> bool:
        """Return whether a tool call with this id was served."""
        return call_id in self._of_call

    def find(self, turns: Sequence[RequestTurn]) -> dict[str, ReplyOccurrence]:
        """Return the replies that a request contains, keyed by model call id, matched by call ids or texts."""
        places: dict[str, list[int]] = {}
        how: dict[str, Evidence] = {}
        who: dict[str, ServedReply] = {}
        for at, turn in enumerate(turns):
            if turn.message.role != "assistant":
                continue
            evidence, replies = self._replies_in(turns, at, how)
            for reply in replies:
                places.setdefault(reply.call_id, []).append(at)
                how[reply.call_id] = "call id" if "call id" in (evidence, how.get(reply.call_id)) else evidence
                who[reply.call_id] = reply
        ids = _Ids(turns)
        return {name: _occurrence(reply, how[name], places[name][-1], turns, ids) for name, reply in who.items()}

    def _replies_in(
        self, turns: Sequence[RequestTurn], at: int, taken: dict[str, Evidence]
    ) -> tuple[Evidence, list[ServedReply]]:
        """Return the replies that an assistant turn contains: none, one, or several merged by the agent."""
        message = turns[at].message
        by_id = [self._of_call[call.call_id] for call in message.tool_calls if call.call_id in self._of_call]
        if by_id:
            return "call id", list({reply.call_id: reply for reply in by_id}.values())
        same = self._of_text.get(message.content.strip(), ())
        free = [reply for reply in same if reply.call_id not in taken]
        if free:
            before = turns[at - 1].message if at else None
            in_place = (each for each in free if before and each.request_end and is_same(before, each.request_end))
            return "text", [next(in_place, free[0])]
        quoted = (self._of_call.get(word) for word in _WORD.findall(message.content)) if not same else ()
        return "quoted call id", list({reply.call_id: reply for reply in quoted if reply}.values())


def occurrence_by_place(
    turns: Sequence[RequestTurn], reply: ServedReply, sent: Sequence[Message]
) -> ReplyOccurrence | None:
    """Find a thread's last reply by its position: the assistant turn after the earlier ones, with any text."""
    messages = [turn.message for turn in turns]
    said = [at for at, message in enumerate(messages) if message.role == "assistant"]
    said_before = [message for message in sent if message.role == "assistant"]
    if len(said) <= len(said_before) or not is_prefix(said_before, [messages[at] for at in said]):
        return None
    at = said[len(said_before)]
    if not said_before and not is_prefix(sent, messages):
        return None
    return _occurrence(reply, "place", at, turns, _Ids(turns))


def occurrence_in_fold(
    turns: Sequence[RequestTurn], reply: ServedReply, told_result: str | None
) -> ReplyOccurrence | None:
    """Return the occurrence of a reply quoted in the last message of a request, or None."""
    at = max(
        (at for at, turn in enumerate(turns) if turn.place and turn.message.role in ("user", "tool")), default=None
    )
    if at is None:
        return None
    none = (None,) * action_count_of(reply.message)
    return ReplyOccurrence(
        reply=reply,
        evidence="quotation",
        turn=at,
        is_present=(True,) * len(none),
        results=none,
        told_result=told_result,
    )


class _Ids:
    """The tool call ids of a request, and the turns that hold their results."""

    def __init__(self, turns: Sequence[RequestTurn]) -> None:
        messages = [turn.message for turn in turns]
        self.called = {call.call_id for message in messages for call in message.tool_calls}
        self.results = {each.tool_call_id: at for at, each in enumerate(messages) if each.tool_call_id is not None}


def _occurrence(
    reply: ServedReply, evidence: Evidence, turn: int, turns: Sequence[RequestTurn], ids: _Ids
) -> ReplyOccurrence:
    actions = action_count_of(reply.message)
    results: tuple[int | None, ...]
    if evidence == "call id":
        names = [call.call_id for call in reply.message.tool_calls]
        results = tuple(ids.results.get(name) for name in names)
        is_present = tuple(name in ids.called or name in ids.results for name in names)
        return ReplyOccurrence(reply=reply, evidence=evidence, turn=turn, is_present=is_present, results=results)
    following = _following(turns, turn)
    if len(following) >= actions:
        results = tuple(following[:actions])
    else:
        results = (*(None for _ in range(actions - 1)), following[0] if following else None)
    return ReplyOccurrence(reply=reply, evidence=evidence, turn=turn, is_present=(True,) * actions, results=results)


def _following(turns: Sequence[RequestTurn], at: int) -> list[int]:
    """Return the user messages and tool results between an assistant turn and the next one."""
    following = []
    for index in range(at + 1, len(turns)):
        role = turns[index].message.role
        if role == "assistant":
            break
        if role != "system":
            following.append(index)
    return following
