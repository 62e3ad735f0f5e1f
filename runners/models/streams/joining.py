"""Joins a provider's stream of server-sent events into one reply (html.spec.whatwg.org, section 9.2)."""

import codecs
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

import anyio
import msgspec

from lhaw_record.runners.base.text.fields import shallow_json
from lhaw_record.runners.models.exchanges import MOST_REPLY_BYTES
from lhaw_record.runners.models.failures import longer_reply
from lhaw_record.runners.models.protocol import ModelError

Body = dict[str, Any]


def fields(value: Any) -> dict[str, Any]:
    """Return an object unchanged, or an empty dictionary for any other value."""
    return value if isinstance(value, dict) else {}


def malformed(what: str) -> ModelError:
    """Return the error for an unreadable provider reply."""
    return ModelError(f"malformed reply: {what}", kind="malformed_reply", is_retryable=True)


def decoded(raw: bytes, what: str) -> Body:
    """Decode a JSON object from a provider."""
    try:
        value = msgspec.json.decode(shallow_json(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(f"{what} is not JSON ({error})") from error
    return object_in(value, what)


def object_in(value: Any, what: str) -> dict[str, Any]:
    """Return a value from a provider's reply, or raise ModelError if it is not an object."""
    if not isinstance(value, dict):
        raise malformed(f"{what} is not an object")
    return value


DONE = "[DONE]"
"""The name of the event that ends a stream of chat completions. It has no data."""
USAGE_OPTION: dict[str, Any] = {"include_usage": True}
"""Requests usage in a streamed chat completion, which otherwise has none."""
_LONGEST_PAUSE_S = 60.0
"""Longest silence of a generating provider: vLLM gives up after 60 s in one step (VLLM_ENGINE_ITERATION_TIMEOUT_S)."""


class StreamedEvent(msgspec.Struct, frozen=True):
    """One server-sent event from a provider: its bytes, its name, and its data. Comments have no data."""

    raw: bytes
    name: str
    data: Body | None


class StreamStep(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one stream event.

    ``is_decisive`` is true if the event completes a tool call or ends the reply, so that the agent may act on it.
    ``begins_call`` is the id of the tool call that begins with it, or empty if the provider gives none. ``has_token``
    says whether it has generated text, reasoning or arguments; empty ones are keepalives and do not count as
    generating.
    """

    is_decisive: bool = False
    begins_call: str | None = None
    has_token: bool = False


CallSplit = Literal["id", "name"]
"""What told two calls of a streamed reply apart although their index is equal or missing."""


class ReplyStream:
    """Joins the events of one streamed reply into its body; a subclass for each wire."""

    def __init__(self) -> None:
        self.is_whole = False
        """Whether the event that ends the reply has arrived."""
        self.calls: list[list[tuple[Body, str]]] = []
        """For each tool call in order, the objects and field names that hold its id."""
        self.calls_split_by: CallSplit | None = None
        """What the recorder told calls apart by where clients differ, or None if the wire's own index did it."""

    def add(self, name: str, data: Body) -> StreamStep:
        """Add one event. Raises ModelError if it is malformed or reports a failure of the provider."""
        raise NotImplementedError

    def body(self) -> Body:
        """Return the reply so far, as an unstreamed reply would have it."""
        raise NotImplementedError


_SENSELESS = (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError)
"""Exceptions raised by code that reads a value of an undocumented shape."""


def add_to(stream: ReplyStream, event: StreamedEvent) -> StreamStep:
    """Add an event of any shape to a stream. Comments change nothing.

    Raises:
        ModelError: The event is malformed or reports a failure of the provider.
    """
    if event.data is None and event.name != DONE:
        return StreamStep()
    try:
        return stream.add(event.name, event.data or {})
    except _SENSELESS as error:
        raise malformed(f"an event of its stream is invalid ({error})") from error


def body_of(stream: ReplyStream) -> Body:
    """Return the reply so far.

    Raises:
        ModelError: The events are inconsistent.
    """
    try:
        return stream.body()
    except _SENSELESS as error:
        raise malformed(f"the events of its stream are invalid ({error})") from error


def is_generating(last_token_ns: int | None, now_ns: int, timeout_s: float) -> bool:
    """Return whether a model was still generating when the request timed out."""
    longest_pause_s = min(_LONGEST_PAUSE_S, timeout_s / 10)
    return last_token_ns is not None and now_ns - last_token_ns <= longest_pause_s * 1e9


def ended_early(model: str) -> ModelError:
    """Return the error for a stream that ended before the reply did."""
    message = f"{model}: no connection: the stream ended before the reply did"
    return ModelError(message, kind="connection", is_retryable=True)


class EventReader:
    """Splits a byte stream into events. Chunks may end anywhere."""

    def __init__(self) -> None:
        self._buffer = b""
        self._has_begun = False
        self._is_after_return = False

    def feed(self, received: bytes) -> Iterator[StreamedEvent]:
        """Yield the events that these bytes complete."""
        if self._is_after_return and received:  # the LF of a CRLF split across chunks
            received = received.removeprefix(b"\n")
            self._is_after_return = False
        if b"\r" in received:
            self._is_after_return = received.endswith(b"\r")
            received = received.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *blocks, self._buffer = (self._buffer + received).split(b"\n\n")
        if blocks and not self._has_begun:
            self._has_begun = True
            blocks[0] = blocks[0].removeprefix(codecs.BOM_UTF8)
        if len(self._buffer) > MOST_REPLY_BYTES:  # a single event is too long
            raise malformed("an event of its stream does not end")
        for block in blocks:
            if lines := block.strip(b"\n"):
                yield _event(lines)


def _event(block: bytes) -> StreamedEvent:
    name, data = "", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    raw = block + b"\n\n"
    if not data:
        return StreamedEvent(raw, name, None)
    joined = data[0] if len(data) == 1 else b"\n".join(data)
    if joined.strip() == DONE.encode():
        return StreamedEvent(raw, DONE, None)
    return StreamedEvent(raw, name, decoded(joined, "an event of its stream"))


LONGEST_REST_S = 10.0
"""How long to wait, after the reply is complete, for its usage, the end mark and the end of the HTTP response.

A choice: the usage follows at once if there is any, and a retry would be paid for again.
"""
LEFT_S = 1.0
"""Stop waiting for the rest when this much of the timeout is left, so that the reply returns in time: a choice."""


async def joined_reply(
    pieces: AsyncIterator[bytes], stream: ReplyStream, note: Callable[[StreamedEvent, StreamStep], None], *, model: str
) -> Body:
    """Read a stream, and return the reply in unstreamed form.

    Once the reply is complete, a broken or silent connection does not invalidate it; a retry would be paid for again.
    """
    import aiohttp
    import httpx

    reader, size = EventReader(), 0
    latest = anyio.current_effective_deadline() - LEFT_S
    try:
        with anyio.CancelScope() as reading:
            async for piece in pieces:
                size += len(piece)
                if size > MOST_REPLY_BYTES:
                    raise longer_reply(model)
                for event in reader.feed(piece):
                    note(event, add_to(stream, event))
                if stream.is_whole:
                    reading.deadline = min(reading.deadline, anyio.current_time() + LONGEST_REST_S, latest)
    except (OSError, aiohttp.ClientError, httpx.TransportError):
        if not stream.is_whole:
            raise
    if not stream.is_whole:
        raise ended_early(model)
    return body_of(stream)
