"""What a wire is: one protocol between agents and models, as a few functions over JSON bodies.

A wire reads a request into turns that remember their place in the body, so that a message can be put into the body
itself and nothing else in it changes. Replies are bodies too: read from a provider, or written for a model of ours.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from runners.conversation import Message, ToolDefinition
from runners.models.protocol import ModelReply

Body = dict[str, Any]
ToolKind = Literal["function", "custom", "provider"]
Memory = dict[str, Any]
"""What a wire keeps for one trial, because its protocol lets clients refer to it."""
WireName = Literal["chat", "responses", "messages"]


class Place(msgspec.Struct, frozen=True):
    """Where a turn stands in a body: the item of its list, and the block of that item where it is one of several."""

    item: int
    block: int | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a request. ``place`` is None outside of the list (``system``, ``instructions``).

    ``is_error`` belongs to results of tools, None where the wire does not tell.
    """

    message: Message
    place: Place | None = None
    is_error: bool | None = None


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a request.

    ``definition`` has the name that the model's calls are recorded under. A ``custom`` tool takes text, which is
    recorded as the argument ``input``; a ``provider`` tool runs at the provider; a deferred one is not shown to the
    model yet. ``namespace`` and ``own_name`` are how the wire spells a name that stands in a namespace.
    """

    definition: ToolDefinition
    kind: ToolKind = "function"
    namespace: str | None = None
    own_name: str = ""
    is_deferred: bool = False


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it was read. ``parameters`` are all fields beside conversation, tools, model and streaming;
    ``headers`` are those that ask a provider for a feature.

    Where a wire has a memory, ``previous_id`` names what the request continues, and ``kept_items`` counts the items at
    the beginning of the body that came from there.
    """

    body: Body
    model: str
    turns: tuple[Turn, ...]
    tools: tuple[OfferedTool, ...] = ()
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    is_streamed: bool = False
    previous_id: str | None = None
    kept_items: int = 0


class Requests(Protocol):
    """A module that knows the requests of a protocol."""

    def read(self, body: Body) -> WireRequest:
        """Read a body; raises Refusal where it is no request of this wire."""
        ...

    def whole(self, request: WireRequest, memory: Memory) -> WireRequest:
        """Return a request with what it leaves to the server's memory put in; raises Refusal where that is unknown."""
        ...

    def keep(self, request: WireRequest, reply: Body, memory: Memory) -> None:
        """Put what later requests may leave out into the memory."""
        ...

    def inserted(self, body: Body, place: Place, text: str) -> Body:
        """Return a body with a user message after the turn at a place; it shares all else with the old one."""
        ...

    def to_openai(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the parameters that have an OpenAI name, under that name, and the names of the others."""
        ...

    def from_openai(self, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return parameters with OpenAI names that this wire has, under its names, and the names of the others."""
        ...


class Replies(Protocol):
    """A module that knows the replies of a protocol."""

    def read(self, body: Body) -> ModelReply:
        """Read a provider's reply, its price left open; raises ModelError (malformed_reply)."""
        ...

    def with_call_ids(self, body: Body, ids: Sequence[str]) -> Body:
        """Return a reply whose tool calls have these ids, in order."""
        ...

    def written(self, reply: ModelReply, request: WireRequest, reply_id: str, created_s: int) -> Body:
        """Write the reply of a model of ours; ``created_s`` in seconds since the epoch."""
        ...

    def presented(self, body: Body, request: WireRequest, reply_id: str) -> Body:
        """Return a provider's reply as the reply to this request."""
        ...

    def events(self, body: Body, request: WireRequest) -> Iterator[bytes]:
        """Cut a reply into server-sent events."""
        ...

    def error(self, status: int, kind: str, message: str) -> Body:
        """Write a refusal."""
        ...

    def error_event(self, status: int, kind: str, message: str) -> bytes:
        """Write a refusal into a stream that has begun."""
        ...


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol: its name in our records, the end of its address, and its two modules."""

    name: WireName
    path: str
    requests: Requests
    replies: Replies
