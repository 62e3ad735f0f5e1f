"""The model behind the gateway, which answers a request of any wire or raises ModelError.

``ModelUpstream`` adapts any ``Model``, such as a scripted one: the model gets the request as a canonical conversation,
and the wire formats the reply. Parameters and tools that the model cannot take are recorded with the call.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.clock import beside_loop
from lhaw_record.runners.base.conversation.messages import Message, to_wire
from lhaw_record.runners.experiment.tables import LIMITS
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.relay import StreamRelay
from lhaw_record.runners.models.gateway.wires.common import pictures_in
from lhaw_record.runners.models.gateway.wires.protocol import Body, RequestTool, WireFormat, WireRequest
from lhaw_record.runners.models.protocol import HostedModel, Model, ModelError, ModelReply, ModelRequest
from lhaw_record.runners.models.streams.joining import fields

CHARACTERS_PER_TOKEN = 4  # of English text (help.openai.com, "What are tokens and how to count them")
_GROUPS = frozenset({"generationConfig", "output_config", "reasoning"})
_WILDCARDS = frozenset("*?[")


class OutgoingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request ready to send: its body with the injected message, the same as canonical messages, and the record.

    ``recorded`` holds the parameters as sent. Its keys ``dropped_parameters``, ``dropped_tools`` and ``deferred_tools``
    list omissions. ``payload`` is for the upstream's own use.
    """

    wire: WireFormat
    request: WireRequest
    messages: tuple[Message, ...]
    recorded: dict[str, Any]
    payload: Any = None


class RoutingTable:
    """Selects the model that answers a request, by the requested model name.

    Args:
        own: Answers names that no pattern matches.
        routed: Name patterns, each with the model that answers. The first match decides.
    """

    def __init__(self, own: "Upstream", routed: Sequence[tuple[str, "Upstream"]] = ()) -> None:
        self._own = own
        self._routed = tuple(routed)

    def __call__(self, name: str) -> "Upstream":
        return next((upstream for pattern, upstream in self._routed if fnmatchcase(name, pattern)), self._own)

    def has(self, name: str) -> bool:
        """Return whether a pattern matches a name, so that a model other than the trial's own may answer."""
        return any(fnmatchcase(name, pattern) for pattern, _ in self._routed)

    @property
    def names(self) -> tuple[str, ...]:
        """Model names to offer to clients: the own model's, and one for each routed model.

        For a routed model, this is the pattern if it is a plain name, else the model's name, with or without its
        provider, whichever matches.
        """
        names = [self._own.name]
        for pattern, upstream in self._routed:
            candidates = (pattern,) if not _WILDCARDS & {*pattern} else (upstream.name, upstream.name.split("/")[-1])
            names += [name for name in candidates if self(name) is upstream][:1]
        return tuple(dict.fromkeys(names))


class UpstreamAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, with the provider's body if the provider supports the wire. If ``body`` is None, the wire writes one.

    ``headers`` are the provider's headers to pass on to the agent, such as rate limits. ``changes`` maps each parameter
    that a library changed to the value sent, or None if it was dropped.
    """

    reply: ModelReply
    body: Body | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    changes: dict[str, Any] = msgspec.field(default_factory=dict)


class Upstream(Protocol):
    """Answers the requests of any number of trials."""

    name: str
    """The model's name, as recorded."""

    async def prepare(self, wire: WireFormat, request: WireRequest, messages: Sequence[Message]) -> OutgoingRequest:
        """Return the request to send, without sending it.

        Raises:
            GatewayRefusal: The request cannot be sent at all.
        """
        ...

    async def send(self, outgoing: OutgoingRequest, relay: StreamRelay | None = None) -> UpstreamAnswer:
        """Send a request and return the whole reply. If the provider streams it, the relay passes it on meanwhile.

        Raises:
            ModelError: The model gave no usable reply.
        """
        ...

    def failed_usage(self, error: ModelError, *, embeddings_of: str | None = None) -> Usage | None:
        """Return the known usage of a failed request, or None.

        Args:
            embeddings_of: The model whose embeddings were asked for. None for any other request.
        """
        ...

    async def count_tokens(self, request: WireRequest) -> int:
        """Return the number of tokens in a request, either counted or estimated."""
        ...

    async def embedding(
        self, wire: WireFormat, request: WireRequest, *, is_routed: bool
    ) -> Callable[[], Awaitable[UpstreamAnswer]]:
        """Return a function that sends a request for embeddings. It raises ModelError without a usable answer.

        Args:
            wire: The dialect of the request.
            is_routed: Whether this model was chosen by the name that the agent asks for, so that its own name goes out.

        Raises:
            GatewayRefusal: The model's provider has no embeddings in this dialect.
        """
        ...


class ModelUpstream:
    """Makes a :class:`Model` available to agents of every wire.

    Args:
        parameters: Generation parameters by their OpenAI names. They override the agent's parameters.
        timeout_s: Timeout of one request, in seconds.
    """

    def __init__(self, model: Model, parameters: Mapping[str, Any] | None = None, timeout_s: float = 600.0) -> None:
        self.name = model.name
        self._model = model
        self._parameters = dict(parameters or {})
        self._timeout_s = timeout_s

    async def prepare(self, wire: WireFormat, request: WireRequest, messages: Sequence[Message]) -> OutgoingRequest:
        """Return the request with OpenAI's parameter names and only tools that the model supports."""
        known, unknown = wire.requests.to_openai(request.parameters)
        parameters = merged_parameters(known, self._parameters)
        refused: tuple[str, ...] = ()
        if isinstance(self._model, HostedModel):
            refused = await self._model.dropped_parameters(parameters)
        sent = {name: value for name, value in parameters.items() if name not in refused}
        left_out = {name: request.parameters[name] for name in unknown} | {name: parameters[name] for name in refused}
        model_request = ModelRequest(
            messages=tuple(messages),
            tools=tuple(tool.definition for tool in request.tools if is_shown(tool)),
            parameters=sent,
            program_parameters=frozenset(known),
            timeout_s=self._timeout_s,
            pictures=await beside_loop(request.effort, pictures_in, request.body),
        )
        recorded = {**sent, **({"dropped_parameters": left_out} if left_out else {}), **tools_left_out(request.tools)}
        return OutgoingRequest(
            wire=wire, request=request, messages=tuple(messages), recorded=recorded, payload=model_request
        )

    async def send(self, outgoing: OutgoingRequest, relay: StreamRelay | None = None) -> UpstreamAnswer:
        return UpstreamAnswer(reply=await self._model.respond(outgoing.payload))

    def failed_usage(self, error: ModelError, *, embeddings_of: str | None = None) -> Usage | None:
        return error.usage

    async def embedding(
        self, wire: WireFormat, request: WireRequest, *, is_routed: bool
    ) -> Callable[[], Awaitable[UpstreamAnswer]]:
        """Refuse, because a :class:`Model` has no embeddings."""
        raise GatewayRefusal("there are no embeddings behind this gateway", status=404, kind="not_found")

    async def count_tokens(self, request: WireRequest) -> int:
        """Return an estimate that assumes four characters per token."""
        return await beside_loop(request.effort, estimated_tokens, request)


def merged_parameters(asked: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the experiment file's parameters into the request's, including nested ones.

    A limit of the reply has two names in chat completions, and a request has room for one.
    """
    kept = {name: value for name, value in asked.items() if not (name in LIMITS and own.keys() & set(LIMITS))}
    groups = {name: {**fields(asked.get(name)), **value} for name, value in own.items() if name in _GROUPS}
    return {**kept, **own, **groups}


def is_shown(tool: RequestTool) -> bool:
    """Return whether a tool can be shown to a model that only takes functions."""
    return tool.kind != "provider" and not tool.is_deferred


def tools_left_out(tools: Sequence[RequestTool], *, has_provider_tools: bool = False) -> dict[str, Any]:
    """Return a record of the tools hidden from the model: dropped ones, and deferred ones that it may find later."""
    dropped = [tool.definition.name for tool in tools if tool.kind == "provider" and not has_provider_tools]
    deferred = [tool.definition.name for tool in tools if tool.is_deferred]
    return {**({"dropped_tools": dropped} if dropped else {}), **({"deferred_tools": deferred} if deferred else {})}


def estimated_tokens(request: WireRequest) -> int:
    """Estimate a request's tokens without a tokenizer, as scripted models do."""
    read = sum(len(canonical_json(to_wire(turn.message))) for turn in request.turns)
    read += sum(len(canonical_json(tool.definition)) for tool in request.tools)
    return read // CHARACTERS_PER_TOKEN
