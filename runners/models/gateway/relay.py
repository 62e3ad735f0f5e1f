"""Passes a provider's stream on to the agent as it comes, and holds back what must be recorded or decided first.

Text, reasoning and the arguments of the first tool call flow at once. The first event that completes a tool call, or
ends the reply, is held with all that follow it: an agent acts on these, so the reply must be durable before they leave.
A tool call whose id is missing, or was served before in this trial, is held from its first event, because the gateway
must give it another id.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.models.gateway.wires.common import event as written_event
from lhaw_record.runners.models.gateway.wires.protocol import WireFormat, WireRequest
from lhaw_record.runners.models.streams.reading import ReplyStream, StreamedEvent, StreamStep, is_generating


class Outlet(Protocol):
    """Takes a stream on its way to the agent. It never blocks, so that a slow reader does not slow the model down."""

    def begin(self, headers: Mapping[str, str]) -> None:
        """Take the provider's headers that the agent should see."""
        ...

    def put(self, piece: bytes) -> None:
        """Take a piece of the stream."""
        ...


class StreamRelay:
    """Passes one streamed reply from the provider to the agent.

    Args:
        outlet: Takes what goes to the agent, or None if the agent waits for the whole reply.
        request: The request as the agent sent it.
        reply_id: The gateway's id for the reply.
        is_free: Returns whether a tool call id can be served as it is, and keeps it for this reply if so.
        clock_ns: Returns monotonic nanoseconds.
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
        """When the first generated piece arrived, or None so far."""
        self._last_token_ns: int | None = None
        self.has_begun = False
        """Whether the agent gets a stream, so that the rest of the reply is in :meth:`rest`."""
        self.partial_usage: Callable[[], Usage | None] = lambda: None
        """Returns the usage that the provider has reported so far, for a stream that breaks off."""
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
        """Prepare for the events of a stream that the provider has begun."""
        self._wire, self._stream = wire, stream
        if self._outlet is not None:
            self.has_begun = True
            self._outlet.begin(headers)

    def comment(self, raw: bytes) -> None:
        """Pass on a comment, which keeps idle timers alive."""
        self._put(raw)

    def add(self, event: StreamedEvent, step: StreamStep) -> None:
        """Pass an event on, or hold it back."""
        if step.has_token:
            self._last_token_ns = self._clock_ns()
            if self.first_token_ns is None:
                self.first_token_ns = self._last_token_ns
        is_renamed = step.begins_call is not None and not self._is_holding and not self._is_free(step.begins_call)
        if self._is_holding or step.is_decisive or is_renamed:
            self.hold(event)
        else:
            self._put(self._written(event))

    def is_generating(self, timeout_s: float) -> bool:
        """Return whether the model was still generating when its time was used up."""
        return is_generating(self._last_token_ns, self._clock_ns(), timeout_s)

    def hold(self, event: StreamedEvent) -> None:
        """Hold back an event, and all that follow."""
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
        """Return an event as it goes to the agent: the provider's own bytes unless something in it must change."""
        if event.data is None or self._wire is None:
            return event.raw
        is_changed |= self._wire.replies.present_event(event.data, self._request, self._reply_id)
        return written_event(event.data, event.name or None) if is_changed else event.raw
