"""Tracks which actions of a trial behind the gateway have started and finished.

The gateway does not see actions being executed. An action therefore starts when a later request of the main thread
contains the reply that called it, and finishes when a request contains its result. A sub-agent's work belongs to the
action that started the sub-agent. runners/base/conversation/actions.py defines actions.
"""

from collections.abc import Mapping, Sequence

import msgspec

from lhaw_record.recorder.events import ActionFinished, ActionStarted
from lhaw_record.runners.base.conversation.actions import action_count_of, actions_of, finished_text
from lhaw_record.runners.base.conversation.messages import Message, ToolResult
from lhaw_record.runners.models.gateway.served_replies import ReplyOccurrence, ServedReply
from lhaw_record.runners.models.gateway.wires.protocol import RequestTurn

_Key = tuple[str, int]
"""A model call, and the action's position in that call's reply."""


class ActionChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The actions that have started or finished according to one request, each with its key."""

    started: tuple[tuple[_Key, ServedReply, ActionStarted], ...] = ()
    finished: tuple[tuple[_Key, ActionFinished], ...] = ()

    @property
    def events(self) -> list[ActionStarted | ActionFinished]:
        """The events to record. If an action starts and finishes in the same request, its two events are adjacent."""
        finished = dict(self.finished)
        pairs = [event for key, _, start in self.started for event in (start, finished.pop(key, None)) if event]
        return [*finished.values(), *pairs]


class ActionLedger:
    """The actions of one trial so far, with their numbers, states and results."""

    def __init__(self) -> None:
        self.count = 0
        self._index: dict[_Key, int] = {}
        self._unfinished: dict[_Key, ServedReply] = {}
        self._results: dict[int, str] = {}
        self._executed: dict[int, tuple[ToolResult, float]] = {}

    def changes_in(
        self,
        replies: Sequence[ServedReply],
        found: Mapping[str, ReplyOccurrence],
        turns: Sequence[RequestTurn],
        *,
        now_ns: int,
        has_tools: bool,
    ) -> ActionChanges:
        """Return the changes shown by a request of the main thread."""
        started: list[tuple[_Key, ServedReply, ActionStarted]] = []
        finished: list[tuple[_Key, ActionFinished]] = []
        for reply in replies:
            place = found.get(reply.call_id)
            if place is None:
                continue
            for position, turn in enumerate(place.results):
                key = (reply.call_id, position)
                if not place.is_present[position]:
                    continue
                index = self._index.get(key)
                if index is None:
                    index = self.count + len(started) + 1
                    started.append((key, reply, _started(index, reply, position)))
                elif key not in self._unfinished:
                    continue
                has_finished = turn is not None or place.is_complete
                if not reply.message.tool_calls and has_tools:
                    finished.append((key, finished_text(index)))
                elif has_finished:
                    is_last = position == len(place.results) - 1
                    result = turns[turn] if turn is not None else _told(place) if is_last else None
                    finished.append((key, self._finished(index, reply, position, result, now_ns)))
        return ActionChanges(started=tuple(started), finished=tuple(finished))

    def changes_at_end(self, replies: Sequence[ServedReply]) -> ActionChanges:
        """Return the changes for the last replies before the agent ended.

        Their actions start, but the results of their calls are unknown.
        """
        keys = [
            ((reply.call_id, position), reply)
            for reply in replies
            for position in range(action_count_of(reply.message))
            if (reply.call_id, position) not in self._index
        ]
        started = [
            (key, reply, _started(index, reply, key[1]))
            for index, (key, reply) in enumerate(keys, start=self.count + 1)
        ]
        finished = [
            (key, finished_text(start.action_index)) for key, reply, start in started if not reply.message.tool_calls
        ]
        return ActionChanges(started=tuple(started), finished=tuple(finished))

    def unfinished(self, now_ns: int) -> ActionChanges:
        """Return a finish for every action whose result was never seen. Its duration is an upper bound."""
        ends = [
            (key, self._finished(self._index[key], reply, key[1], None, now_ns))
            for key, reply in self._unfinished.items()
        ]
        return ActionChanges(finished=tuple(ends))

    def executed(self, action_index: int, result: ToolResult, took_ms: float) -> None:
        """Store the result and duration of an action that the gateway executed, until a request shows its result."""
        self._executed.setdefault(action_index, (result, took_ms))

    def commit(self, changes: ActionChanges) -> None:
        """Apply changes that have been recorded."""
        for key, reply, start in changes.started:
            self._index[key] = start.action_index
            self._unfinished[key] = reply
            self.count = max(self.count, start.action_index)
        for key, end in changes.finished:
            del self._unfinished[key]
            if end.result is not None:
                self._results[end.action_index] = end.result

    def is_counted(self, reply: ServedReply) -> bool:
        """Return whether any action of a reply is in the ledger."""
        return any((reply.call_id, position) in self._index for position in range(action_count_of(reply.message)))

    def index_of(self, model_call_id: str, position: int) -> int | None:
        """Return the number of an action, or None if the action is not in the ledger."""
        return self._index.get((model_call_id, position))

    def with_recorded_result(self, message: Message, action_index: int, told_now: str | None) -> Message:
        """Return the message with ``result_of_action`` set if its text repeats the action's recorded result."""
        if not message.content or message.content not in (told_now, self._results.get(action_index)):
            return message
        return msgspec.structs.replace(message, result_of_action=action_index)

    def _finished(
        self, index: int, reply: ServedReply, position: int, shown: RequestTurn | None, now_ns: int
    ) -> ActionFinished:
        """Build an action's finish from the result shown by the agent and the gateway's execution data, if any."""
        is_malformed = actions_of(reply.message)[position].kind == "malformed"
        finished = ActionFinished(
            action_index=index,
            is_error=True if is_malformed else shown.is_error if shown else None,
            result=shown.message.content if shown else None,
            duration_ms=round(_share_ms(reply, now_ns), 3),
        )
        if index not in self._executed:
            return finished
        result, took_ms = self._executed[index]
        return msgspec.structs.replace(
            finished,
            is_error=result.is_error,
            duration_ms=took_ms,
            server=result.server,
            server_pid=result.server_pid,
            reference_result_sha256=result.reference_result_sha256,
            is_same_as_reference=result.is_same_as_reference,
        )


def _told(place: ReplyOccurrence) -> RequestTurn | None:
    """Return the result quoted in a folded history, as a turn."""
    return (
        RequestTurn(message=Message(role="user", content=place.told_result)) if place.told_result is not None else None
    )


def _started(index: int, reply: ServedReply, position: int) -> ActionStarted:
    return actions_of(reply.message)[position].started(index, reply.call_id)


def _share_ms(reply: ServedReply, now_ns: int) -> float:
    """Return the ms since a reply was served, divided by its action count, as single durations are unknown."""
    return (now_ns - reply.served_ns) / 1e6 / action_count_of(reply.message)
