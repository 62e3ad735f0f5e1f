"""Decides when to inject the message into an unmodified agent, and where it goes in every later request.

The agent's own history never contains the message, so the gateway inserts it again into every later request. The anchor
is the reply after which the message was first inserted; the message follows the last result of that reply's actions.
The message moves to the top of the main thread if the thread restarts with a summary that lacks the anchor, or if the
agent is restarted for another user request while the message is due.
"""

from collections.abc import Mapping, Sequence

import msgspec

from lhaw_record.recorder.events import AnchorLost, AnyEvent, InjectionReapplied
from lhaw_record.runners.base.conversation.injection import PlannedInjection, injected
from lhaw_record.runners.models.gateway.served_replies import ReplyOccurrence, ServedReply
from lhaw_record.runners.models.gateway.threads import ThreadKind
from lhaw_record.runners.models.gateway.wires.protocol import RequestTurn


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The message's position in one request, the events to record, and the resulting injection state."""

    after_turn: int
    after: "InjectionState"
    events: tuple[AnyEvent, ...] = ()


class InjectionState(msgspec.Struct, frozen=True, kw_only=True):
    """The planned message and its current anchor. Immutable: a request may produce a new state.

    Args:
        planned: The message and its target action.
        anchor: The reply whose results the message follows. None until the message has been inserted.
        is_at_top: Whether the main thread lost the anchor, so that the message is at its top.
    """

    planned: PlannedInjection
    anchor: ServedReply | None = None
    is_at_top: bool = False

    def placement_in(
        self,
        turns: Sequence[RequestTurn],
        found: Mapping[str, ReplyOccurrence],
        *,
        kind: ThreadKind,
        thread_id: str,
        model_call_id: str,
        last_started: ServedReply | None,
        action_count: int,
        reason: str,
        is_reopened: bool,
    ) -> Placement | None:
        """Return the message's position in a request, or None if it is not inserted."""
        if self.anchor is None:
            if kind != "main" or last_started is None or not self.planned.is_due(action_count):
                return None
            return self._first(turns, found.get(last_started.call_id), last_started, action_count, is_reopened)
        place = found.get(self.anchor.call_id)
        if place is not None and place.is_complete:
            return Placement(
                after_turn=_after_results(turns, place.end), after=msgspec.structs.replace(self, is_at_top=False)
            )
        top = _top(turns)
        if kind != "main" or top is None:
            return None
        lost = AnchorLost(
            model_call_id=model_call_id, thread_id=thread_id, anchor_call_id=self.anchor.call_id, reason=reason
        )
        again = InjectionReapplied(model_call_id=model_call_id, thread_id=thread_id, place="top")
        events = () if self.is_at_top else (lost, again)
        return Placement(after_turn=top, after=msgspec.structs.replace(self, is_at_top=True), events=events)

    def _first(
        self,
        turns: Sequence[RequestTurn],
        place: ReplyOccurrence | None,
        last_started: ServedReply,
        action_count: int,
        is_reopened: bool,
    ) -> Placement | None:
        """Return the position of the first insertion, or None if it must wait for a later request.

        The message follows all results of a batch, or the user's next request if that begins a new conversation.
        """
        if is_reopened:
            at = _top(turns)
        elif place is None or not place.is_complete or turns[place.end].place is None:
            at = None
        else:
            at = _after_results(turns, place.end)
        if at is None:
            return None
        event = injected(self.planned, status="injected", after_action=action_count)
        after = msgspec.structs.replace(self, anchor=last_started, is_at_top=is_reopened)
        return Placement(after_turn=at, after=after, events=(event,))


def _after_results(turns: Sequence[RequestTurn], at: int) -> int:
    """Return the last of consecutive tool results. Agents merge replies, and nothing may separate their results."""
    while at + 1 < len(turns) and turns[at + 1].message.role == "tool":
        at += 1
    return at


def _top(turns: Sequence[RequestTurn]) -> int | None:
    """Return the first user turn in the body's message list, or None."""
    return next((at for at, turn in enumerate(turns) if turn.message.role == "user" and turn.place), None)
