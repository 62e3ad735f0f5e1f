"""A wire is one protocol between agents and models, defined by functions over JSON bodies.

A wire parses a request into turns and records each turn's position in the body, so that a message can be inserted
without changing anything else. Replies are also bodies, either from a provider or written for one of our own models.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition
from lhaw_record.runners.models.protocol import ModelReply
from lhaw_record.runners.models.streams.joining import ReplyStream

Body = dict[str, Any]
ToolKind = Literal["function", "custom", "provider"]
Memory = dict[str, Any]
"""Data that a wire stores per trial, because its protocol lets clients refer to earlier data."""
WireName = Literal["chat", "responses", "messages", "gemini"]


class TurnPosition(msgspec.Struct, frozen=True):
    """A turn's position in a body: the item in the message list, and the block within the item if it has several."""

    item: int
    block: int | None = None


class RequestTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a request. ``place`` is None if the message is not in the list (``system``, ``instructions``).

    ``is_error`` applies to tool results, and is None if the wire does not say.
    """

    message: Message
    place: TurnPosition | None = None
    is_error: bool | None = None


class RequestTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a request offers.

    ``definition`` has the name under which the model's calls are recorded. A ``custom`` tool takes text, recorded as
    the argument ``input``. A ``provider`` tool runs at the provider. A deferred tool is not shown to the model yet.
    ``namespace`` and ``own_name`` are the parts of the name in the wire's spelling.
    """

    definition: ToolDefinition
    kind: ToolKind = "function"
    namespace: str | None = None
    own_name: str = ""
    is_deferred: bool = False


QUICK = 64
"""By how much a byte is faster decoded or compared than matched, for the size of :func:`beside_loop`: a choice."""


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request.

    ``parameters`` holds all fields except the conversation, tools, model and streaming. ``headers`` holds headers that
    request provider features. On a wire with a memory, ``previous_id`` names the reply that the request continues, and
    ``kept_items`` counts the leading items of the body that come from the memory. ``size_bytes`` is what was received.
    """

    body: Body
    model: str
    turns: tuple[RequestTurn, ...]
    tools: tuple[RequestTool, ...] = ()
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    is_streamed: bool = False
    previous_id: str | None = None
    kept_items: int = 0
    size_bytes: int = 0

    @property
    def effort(self) -> int:
        """Its size for :func:`beside_loop`. How much the wire's memory adds is known only later."""
        return 1 << 20 if self.previous_id is not None else self.size_bytes // QUICK


class RequestFormat(Protocol):
    """A module that reads and changes the requests of a wire."""

    def read(self, body: Body) -> WireRequest:
        """Read a body. Raises GatewayRefusal if the body is not a request of this wire."""
        ...

    def whole(self, request: WireRequest, memory: Memory) -> WireRequest:
        """Add the items that the server stores for the client. Raises GatewayRefusal if they are unknown."""
        ...

    def keep(self, request: WireRequest, reply: Body, memory: Memory) -> None:
        """Store what later requests may omit."""
        ...

    def inserted(self, body: Body, place: TurnPosition, text: str) -> Body:
        """Return the body with a user message inserted after the turn at ``place``.

        The other items are shared, not copied.
        """
        ...

    def addressed(self, body: Body, model: str) -> Body:
        """Return the body for a provider that supports this wire, with the provider's name for the model."""
        ...

    def to_openai(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Translate parameters to OpenAI's names. Also returns the names of parameters that have none."""
        ...

    def from_openai(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Translate OpenAI parameter names to this wire's names.

        Also returns the names of parameters that the wire lacks.
        """
        ...


class ReplyFormat(Protocol):
    """A module that reads and writes the replies of a wire."""

    def read(self, body: Body) -> ModelReply:
        """Read a provider's reply; its price is not filled in. Raises ModelError (malformed_reply)."""
        ...

    def with_call_ids(self, body: Body, ids: Sequence[str]) -> Body:
        """Return the reply with these ids in its tool calls, in order."""
        ...

    def written(self, reply: ModelReply, request: WireRequest, reply_id: str, created_s: int) -> Body:
        """Write the body for a reply by one of our own models. ``created_s`` is in seconds since the epoch."""
        ...

    def presented(self, body: Body, request: WireRequest, reply_id: str) -> Body:
        """Return a provider's reply, adapted to this request."""
        ...

    def present_event(self, data: Body, request: WireRequest, reply_id: str) -> bool:
        """Adapt one event of a provider's stream to this request in place, as ``presented`` does.

        Returns whether anything changed.
        """
        ...

    def events(self, body: Body, request: WireRequest) -> Iterator[bytes]:
        """Split a reply into server-sent events."""
        ...

    def error(self, status: int, kind: str, message: str) -> Body:
        """Write the body for a refusal."""
        ...

    def error_event(self, status: int, kind: str, message: str) -> bytes:
        """Write a refusal as an event in a stream that has already begun."""
        ...


class WireFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol: its name in the records, its URL path suffix, and the modules that implement it.

    ``ping`` is an event that clients treat as a keepalive and otherwise ignore.
    """

    name: WireName
    path: str
    requests: RequestFormat
    replies: ReplyFormat
    stream: Callable[[], ReplyStream]
    ping: bytes = b": ping\n\n"
