"""Reads a provider's stream: server-sent events that join to one reply (html.spec.whatwg.org, section 9.2)."""

import codecs
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import anyio
import msgspec

from lhaw_record.runners.models.failures import endless_reply
from lhaw_record.runners.models.protocol import ModelError

Body = dict[str, Any]


def fields(value: Any) -> dict[str, Any]:
    """Return an object unchanged, or an empty dictionary for any other value."""
    return value if isinstance(value, dict) else {}


def malformed(what: str) -> ModelError:
    """Return the error for a provider's reply that cannot be read."""
    return ModelError(f"malformed reply: {what}", kind="malformed_reply", is_retryable=True)


def decoded(raw: bytes, what: str) -> Body:
    """Return the JSON object that a provider wrote."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(f"{what} is not JSON ({error})") from error
    return object_in(value, what)


def object_in(value: Any, what: str) -> dict[str, Any]:
    """Check that a value in a provider's reply is an object, and return it."""
    if not isinstance(value, dict):
        raise malformed(f"{what} is not an object")
    return value


DONE = "[DONE]"
"""The name of the event that ends a stream of chat completions. It has no data."""
MOST_REPLY_BYTES = 64 << 20
"""A choice: twice the longest reply of today's providers (128,000 tokens of some 250 bytes each in a stream)."""
USAGE_OPTION: dict[str, Any] = {"include_usage": True}
"""Asks for the usage of a streamed chat completion, which has none otherwise."""
_LONGEST_PAUSE_S = 60.0
"""A provider that generates is silent no longer: vLLM itself gives up an engine that takes 60 s for one step
(VLLM_ENGINE_ITERATION_TIMEOUT_S)."""


class StreamedEvent(msgspec.Struct, frozen=True):
    """One server-sent event of a provider: its bytes, its name, and its data. Comments have no data."""

    raw: bytes
    name: str
    data: Body | None


class StreamStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one event of a stream does.

    It is ``decisive`` if it completes a tool call or ends the reply, so that the agent may act on it. ``begins_call``
    is the id of the tool call that begins with it, empty if the provider gives none. ``has_token`` says whether it
    carries generated text, reasoning or arguments. Empty ones are signs of life, and not of a model that writes.
    """

    is_decisive: bool = False
    begins_call: str | None = None
    has_token: bool = False


class ReplyStream(Protocol):
    """Joins the events of one streamed reply into its body."""

    is_whole: bool
    """Whether the event that ends the reply has come."""

    calls: list[list[tuple[Body, str]]]
    """For each tool call in order, the objects and the field in them that hold its id."""

    def add(self, name: str, data: Body) -> StreamStep:
        """Add one event. Raises ModelError if the provider reports a failure in it, or if it makes no sense."""
        ...

    def body(self) -> Body:
        """Return the reply so far, as an unstreamed reply would have it."""
        ...


_SENSELESS = (TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError)
"""What code raises that meets a value of another shape than documented."""


def add_to(stream: ReplyStream, event: StreamedEvent) -> StreamStep:
    """Add an event of any shape to a stream. Comments change nothing.

    Raises:
        ModelError: The provider reports a failure in it, or it makes no sense.
    """
    if event.data is None and event.name != DONE:
        return StreamStep()
    try:
        return stream.add(event.name, event.data or {})
    except _SENSELESS as error:
        raise malformed(f"an event of its stream makes no sense ({error})") from error


def body_of(stream: ReplyStream) -> Body:
    """Return the reply so far.

    Raises:
        ModelError: Its events make no sense together.
    """
    try:
        return stream.body()
    except _SENSELESS as error:
        raise malformed(f"the events of its stream make no sense ({error})") from error


def is_generating(last_token_ns: int | None, now_ns: int, timeout_s: float) -> bool:
    """Return whether a model was still generating when the time for its reply was used up."""
    longest_pause_s = min(_LONGEST_PAUSE_S, timeout_s / 10)
    return last_token_ns is not None and now_ns - last_token_ns <= longest_pause_s * 1e9


def ended_early(model: str) -> ModelError:
    """Return the error for a stream that ended before the reply did."""
    message = f"{model}: no connection: the stream ended before the reply did"
    return ModelError(message, kind="connection", is_retryable=True)


class EventReader:
    """Splits a stream of bytes into events. Bytes may be cut anywhere."""

    def __init__(self) -> None:
        self._buffer = b""
        self._has_begun = False
        self._is_after_return = False

    def feed(self, received: bytes) -> Iterator[StreamedEvent]:
        """Yield the events that are complete with these bytes."""
        if self._is_after_return and received:  # the other half of a line's end
            received = received.removeprefix(b"\n")
            self._is_after_return = False
        if b"\r" in received:
            self._is_after_return = received.endswith(b"\r")
            received = received.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *blocks, self._buffer = (self._buffer + received).split(b"\n\n")
        if blocks and not self._has_begun:
            self._has_begun = True
            blocks[0] = blocks[0].removeprefix(codecs.BOM_UTF8)
        if len(self._buffer) > MOST_REPLY_BYTES:  # of one event
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
"""How long a whole reply waits for what may follow it: its usage, a mark, and the end of the HTTP response.

A choice: the usage follows at once where there is any, and asking again would be paid for again."""
LEFT_S = 1.0
"""A whole reply waits no longer than until this much of the request's time is left: a choice, to return in time."""


async def joined_reply(
    pieces: AsyncIterator[bytes], stream: ReplyStream, note: Callable[[StreamedEvent, StreamStep], None], *, model: str
) -> Body:
    """Read a stream, and return the reply as an unstreamed one has it.

    Once the reply is whole, a connection that breaks or falls silent takes nothing from it; asking again would be paid
    for again.
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
                    raise endless_reply(f"it is longer than {MOST_REPLY_BYTES:,} bytes", model=model)
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
