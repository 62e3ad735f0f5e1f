"""A provider's stream: events that join to one reply."""

from typing import Any, Protocol

import msgspec

from lhaw_record.runners.models.protocol import ModelError
from lhaw_record.runners.models.streams.bodies import Body, malformed

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
    """Add an event to a stream, whatever its shape. Comments change nothing.

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
