"""One thread of a trial as its last call left it, and what is said of a request that belongs to it."""

from typing import Literal

import msgspec

from recorder.events.model import CallKind
from runners.conversation import Message, ToolDefinition
from runners.gateway.markers import Markers
from runners.gateway.replies import ServedReply
from runners.gateway.wires.protocol import WireRequest
from runners.models.history import History

ThreadKind = Literal["main", "sub_agent", "side"]
CallState = Literal["waiting", "served", "failed"]


class Thread:
    """One conversation with the model, as its last call left it."""

    def __init__(self, thread_id: str, kind: ThreadKind) -> None:
        self.thread_id = thread_id
        self.kind: ThreadKind = kind
        self.markers = Markers()
        self.tools: tuple[ToolDefinition, ...] | None = None
        self.opening: tuple[Message, ...] = ()
        self.states_task = False
        self.call_count = 0
        self.last_call_id: str | None = None
        self.last_state: CallState = "served"
        self.waiting: dict[str, str | None] = {}
        self.sent: tuple[Message, ...] = ()
        self.history = History()
        self.replies: list[ServedReply] = []

    @property
    def has_tools(self) -> bool:
        """Whether its last call offered tools."""
        return bool(self.tools)

    @property
    def last_reply(self) -> ServedReply | None:
        """The reply that was served last, None before the first."""
        return self.replies[-1] if self.replies else None


class Classification(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request belongs and why. ``thread_id`` is None for a thread that begins.

    ``kind`` is that of the thread from now on, ``is_restart`` says that the thread begins anew without its history.
    ``replaces`` is a thread that was taken for the main one.
    """

    thread_id: str | None
    kind: ThreadKind
    reason: str
    is_retry: bool = False
    is_restart: bool = False
    forked_from: str | None = None
    replaces: str | None = None

    @property
    def call_kind(self) -> CallKind:
        """The kind of the call as it is recorded."""
        return "retry" if self.is_retry else self.kind


def opening_of(request: WireRequest) -> tuple[Message, ...]:
    """Return what a conversation opens with: its system texts but the first of several, and the first user turn."""
    messages = [turn.message for turn in request.turns]
    first_user = next((message for message in messages if message.role == "user"), None)
    systems = [message for message in messages if message.role == "system"]
    opening = [*(systems[1:] if len(systems) > 1 else systems), first_user]
    return tuple(message for message in opening if message is not None)
