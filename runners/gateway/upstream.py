"""What lies behind the gateway: something that answers a request of any wire, or fails with a ModelError.

Here is the one for models of ours, scripted ones above all: the request goes to them as a canonical conversation, and
the wire writes their reply. What they cannot be told is recorded with the call.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from recorder.canonical import canonical_json
from runners.conversation import Message, to_wire
from runners.gateway.wires.protocol import Body, OfferedTool, Wire, WireRequest
from runners.models.calls import DropsParameters
from runners.models.protocol import Model, ModelReply, ModelRequest
from runners.models.scripted import ScriptedModel
from runners.models.scripted.foreign import ForeignModel

CHARACTERS_PER_TOKEN = 4


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A request on its way: the body with the injection in it, the same as canonical messages, and what is recorded.

    ``recorded`` are the parameters as sent; what is left out stands in it under ``dropped_parameters``,
    ``dropped_tools`` and ``deferred_tools``. ``payload`` is the upstream's own.
    """

    wire: Wire
    request: WireRequest
    messages: tuple[Message, ...]
    recorded: dict[str, Any]
    payload: Any = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, and its body where the provider speaks the wire; else the wire writes one."""

    reply: ModelReply
    body: Body | None = None


class Upstream(Protocol):
    """Answers the requests of any number of trials."""

    name: str
    """The model's name, as it is recorded."""

    async def prepare(self, wire: Wire, request: WireRequest, messages: Sequence[Message]) -> Outgoing:
        """Return what will be sent; nothing is sent yet.

        Raises:
            Refusal: This request cannot be sent at all.
        """
        ...

    async def send(self, outgoing: Outgoing) -> Answer:
        """Return the whole reply.

        Raises:
            ModelError: There is none.
        """
        ...

    async def count_tokens(self, request: WireRequest) -> int:
        """Return how many tokens a request has, counted or estimated here."""
        ...


class ModelUpstream:
    """A model of ours behind every wire.

    Args:
        model: The model.
        parameters: Generation parameters by their OpenAI names; they go before those of the agent.
        timeout_s: Seconds that one request may take.
    """

    def __init__(self, model: Model, parameters: Mapping[str, Any] | None = None, timeout_s: float = 600.0) -> None:
        self.name = model.name
        self._model = ForeignModel(model) if isinstance(model, ScriptedModel) else model
        self._parameters = dict(parameters or {})
        self._timeout_s = timeout_s

    async def prepare(self, wire: Wire, request: WireRequest, messages: Sequence[Message]) -> Outgoing:
        """Return the request with its parameters in OpenAI's names and the tools that a model can be shown."""
        known, unknown = wire.requests.to_openai(request.parameters)
        parameters = {**known, **self._parameters}
        refused: tuple[str, ...] = ()
        if isinstance(self._model, DropsParameters):
            refused = await self._model.dropped_parameters(parameters)
        sent = {name: value for name, value in parameters.items() if name not in refused}
        left_out = {name: request.parameters[name] for name in unknown} | {name: parameters[name] for name in refused}
        model_request = ModelRequest(
            messages=tuple(messages),
            tools=tuple(tool.definition for tool in request.tools if is_shown(tool)),
            parameters=sent,
            timeout_s=self._timeout_s,
        )
        recorded = {**sent, **({"dropped_parameters": left_out} if left_out else {}), **tools_left_out(request.tools)}
        return Outgoing(wire=wire, request=request, messages=tuple(messages), recorded=recorded, payload=model_request)

    async def send(self, outgoing: Outgoing) -> Answer:
        """Ask the model."""
        return Answer(reply=await self._model.respond(outgoing.payload))

    async def count_tokens(self, request: WireRequest) -> int:
        """Return an estimate of four characters to a token."""
        return estimated_tokens(request)


def is_shown(tool: OfferedTool) -> bool:
    """Return whether a model that knows functions alone can be shown a tool."""
    return tool.kind != "provider" and not tool.is_deferred


def tools_left_out(tools: Sequence[OfferedTool], *, has_provider_tools: bool = False) -> dict[str, Any]:
    """Return what is recorded of tools that a model does not see: those it cannot have, and those it may find later."""
    dropped = [tool.definition.name for tool in tools if tool.kind == "provider" and not has_provider_tools]
    deferred = [tool.definition.name for tool in tools if tool.is_deferred]
    return {**({"dropped_tools": dropped} if dropped else {}), **({"deferred_tools": deferred} if deferred else {})}


def estimated_tokens(request: WireRequest) -> int:
    """Return the tokens of a request where no tokenizer is at hand, as the scripted models count theirs."""
    read = sum(len(canonical_json(to_wire(turn.message))) for turn in request.turns)
    read += sum(len(canonical_json(tool.definition)) for tool in request.tools)
    return read // CHARACTERS_PER_TOKEN
