"""Forwards a provider's stream to the agent as it arrives, holding back events that must be recorded first.

Text, reasoning and the arguments of the first tool call are forwarded at once. The event that completes a tool call or
ends the reply is held back with all later events: the agent acts on them, so the reply must be durable first. A tool
call without an id, or with one that this trial has had, is held back from its first event: the gateway replaces the id.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakValueDictionary

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.models.gateway.wires.common import event as written_event
from lhaw_record.runners.models.gateway.wires.protocol import WireFormat, WireRequest
from lhaw_record.runners.models.streams.joining import ReplyStream, StreamedEvent, StreamStep, is_generating

OPEN: "WeakValueDictionary[tuple[str, str], StreamRelay]" = WeakValueDictionary()
"""The replies that are streamed now, by the ids of the trial and the call."""
_SHOWN_CHARACTERS = 4_000
_WORDS = frozenset(
    {"text", "content", "delta", "thinking", "reasoning_content", "reasoning", "partial_json", "arguments"}
)
"""The fields that have generated text, on every wire."""


class Outlet(Protocol):
    """Receives a stream for the agent. It never blocks, so that a slow client does not slow down the model."""

    is_abandoned: bool
    """Whether the client has disconnected."""

    def begin(self, headers: Mapping[str, str]) -> None:
        """Set the provider's headers to pass on to the agent."""
        ...

    def put(self, piece: bytes) -> None: ...


class StreamRelay:
    """Forwards one streamed reply from the provider to the agent.

    Args:
        outlet: Receives the chunks for the agent, or None if the agent waits for the whole reply.
        request: The agent's original request.
        reply_id: The gateway's id for the reply.
        is_free: Returns whether a tool call id is unused in this trial, and reserves it for this reply if so.
    """

    def __init__(
        self,
        outlet: Outlet | None,
        request: WireRequest,
        reply_id: str,
        is_free: Callable[[str], bool],
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.first_token_ns: int | None = None
        """When the first generated chunk arrived, or None so far."""
        self._last_token_ns: int | None = None
        self.written = ""
        """The end of what the model has written so far, for a page."""
        self.has_begun = False
        """Whether part of the reply was streamed to the agent; :meth:`rest` returns the remainder."""
        self.partial_usage: Callable[[], Usage | None] = lambda: None
        """Returns the usage reported so far, for a stream that breaks off."""
        self._outlet = outlet
        self._request = request
        self._reply_id = reply_id
        self._is_free = is_free
        self._clock_ns = clock_ns
        self._wire: WireFormat | None = None
        self._stream: ReplyStream | None = None
        self._held: list[StreamedEvent] = []
        self._is_holding = False

    def begin(self, wire: WireFormat, stream: ReplyStream, headers: Mapping[str, str]) -> None:
        """Set up for a stream that the provider has begun."""
        self._wire, self._stream = wire, stream
        if self._outlet is not None:
            self.has_begun = True
            self._outlet.begin(headers)

    def comment(self, raw: bytes) -> None:
        """Forward a comment, which prevents idle timeouts."""
        self._put(raw)

    def add(self, event: StreamedEvent, step: StreamStep) -> None:
        """Forward an event, or hold it back."""
        if step.has_token:
            text = self.written + _words(event.data)  # shown from a whole word on: half a secret is not known as one
            self.written = text[-_SHOWN_CHARACTERS:].partition(" ")[2] if len(text) > _SHOWN_CHARACTERS else text
            self._last_token_ns = self._clock_ns()
            if self.first_token_ns is None:
                self.first_token_ns = self._last_token_ns
        is_renamed = step.begins_call is not None and not self._is_holding and not self._is_free(step.begins_call)
        if self._is_holding or step.is_decisive or is_renamed:
            self.hold(event)
        else:
            self._put(self._written(event))

    def is_generating(self, timeout_s: float) -> bool:
        """Return whether the model was still generating when the request timed out."""
        return is_generating(self._last_token_ns, self._clock_ns(), timeout_s)

    def hold(self, event: StreamedEvent) -> None:
        """Hold back an event and all later ones."""
        self._is_holding = True
        self._held.append(event)

    def rest(self, call_ids: Sequence[str]) -> bytes:
        """Return the events that were held back, with these ids in the reply's tool calls."""
        assert self._stream is not None, "only a stream that has begun holds events"
        is_renamed = False
        for places, call_id in zip(self._stream.calls, call_ids, strict=False):
            for holder, field in places:
                if holder.get(field) != call_id:
                    holder[field] = call_id
                    is_renamed = True
        return b"".join(self._written(event, is_changed=is_renamed) for event in self._held)

    def _put(self, piece: bytes) -> None:
        if self._outlet is not None:
            self._outlet.put(piece)

    def _written(self, event: StreamedEvent, *, is_changed: bool = False) -> bytes:
        """Return an event's bytes for the agent: the provider's own, unless the event must be changed."""
        if event.data is None or self._wire is None:
            return event.raw
        is_changed |= self._wire.replies.present_event(event.data, self._request, self._reply_id)
        return written_event(event.data, event.name or None) if is_changed else event.raw


def _words(value: Any) -> str:
    """Return the text that an event of any wire adds to a reply."""
    if isinstance(value, dict):
        return "".join(
            each if name in _WORDS and isinstance(each, str) else _words(each) for name, each in value.items()
        )
    return "".join(map(_words, value)) if isinstance(value, list) else ""
