"""Any model that litellm reaches, in the agent's own wire where its provider speaks it, so that nothing is lost.

Everything goes through litellm to a provider of chat completions; Responses and Messages do where litellm knows the
provider to have them. Other requests go as a canonical conversation, which every provider understands.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from recorder.values import Usage
from runners.conversation import Message, to_wire
from runners.gateway.upstream import Answer, ModelUpstream, Outgoing, tools_left_out
from runners.gateway.wires.protocol import Body, Wire, WireRequest
from runners.models.litellm_library import load_litellm, provider_of
from runners.models.litellm_model import LitellmModel
from runners.models.litellm_names import OPENAI_COMPATIBLE, unsupported_parameters
from runners.models.litellm_replies import listed_cost_usd
from runners.models.prices import cost_usd
from runners.models.protocol import ModelError, token_count
from runners.models.wire import tool_to_wire

_TAKES_ALL = frozenset({OPENAI_COMPATIBLE, "openai", "hosted_vllm"})  # what their servers do not know, they refuse
_NOT_SENT = frozenset({"model", "stream", "stream_options"})


class _Call(msgspec.Struct, frozen=True):
    """A call of litellm in the agent's own wire."""

    arguments: dict[str, Any]


class LitellmUpstream:
    """A model behind litellm, for agents of every wire; nothing is retried here, because agents retry themselves.

    Args:
        model: What to ask.
        parameters: Generation parameters by their OpenAI names; they go before those of the agent.
        timeout_s: Seconds that one request may take.
    """

    def __init__(
        self, model: LitellmModel, parameters: Mapping[str, Any] | None = None, timeout_s: float = 600.0
    ) -> None:
        self.name = model.name
        self._model = model
        self._parameters = dict(parameters or {})
        self._timeout_s = timeout_s
        self._canonical = ModelUpstream(model, self._parameters, timeout_s)

    async def prepare(self, wire: Wire, request: WireRequest, messages: Sequence[Message]) -> Outgoing:
        """Return the body for litellm's call of the wire, or the canonical conversation."""
        await load_litellm()
        qualified = self._model.qualified_name
        provider, model = provider_of(qualified) or ("", qualified)
        if not _speaks(wire, provider, model):
            return await self._canonical.prepare(wire, request, messages)
        own, homeless = wire.requests.from_openai(self._parameters)
        parameters = {**request.parameters, **own}
        known = _known_parameters(wire, qualified, provider, parameters)
        left_out = {name: value for name, value in parameters.items() if name not in known}
        left_out |= {name: self._parameters[name] for name in homeless}
        has_provider_tools = wire.name != "chat"
        body = {name: value for name, value in request.body.items() if name not in {*_NOT_SENT, *request.parameters}}
        if not has_provider_tools:
            body = _without_provider_tools(body, request)
        sent = {name: parameters[name] for name in known}
        recorded = {
            **sent,
            **({"headers": request.headers} if request.headers else {}),
            **({"dropped_parameters": left_out} if left_out else {}),
            **tools_left_out(request.tools, has_provider_tools=has_provider_tools),
        }
        is_extra = wire.name == "responses" or provider in _TAKES_ALL
        arguments = {**body, **({"extra_body": sent} if is_extra else sent), **self._model.access(self._timeout_s)}
        if request.headers:
            arguments["extra_headers"] = request.headers
        return Outgoing(
            wire=wire, request=request, messages=tuple(messages), recorded=recorded, payload=_Call(arguments)
        )

    async def send(self, outgoing: Outgoing) -> Answer:
        """Ask the provider and read its whole reply."""
        if not isinstance(outgoing.payload, _Call):
            return await self._canonical.send(outgoing)
        litellm: Any = await load_litellm()
        ask = {
            "chat": litellm.acompletion,
            "responses": litellm.aresponses,
            "messages": litellm.anthropic.messages.acreate,
        }[outgoing.wire.name]
        try:
            # litellm's own limit is one of silence between two bytes; ours is one of the whole request.
            with anyio.fail_after(self._timeout_s):
                response = await ask(**outgoing.payload.arguments)
            return self._answer(outgoing.wire, response)
        except ModelError:
            raise
        except TimeoutError as error:
            late = TimeoutError(f"the request took longer than {self._timeout_s:g} s")
            raise self._model.readable(late) from error
        except Exception as error:
            raise self._model.readable(error) from error

    async def count_tokens(self, request: WireRequest) -> int:
        """Return the tokens of a request by the tokenizer that litellm has for the model, without a network."""
        litellm: Any = await load_litellm()
        messages = [to_wire(turn.message) for turn in request.turns]
        tools = [tool_to_wire(tool.definition) for tool in request.tools]

        def counted() -> int:
            return int(litellm.token_counter(model=self.name, messages=messages, tools=tools or None))

        return await anyio.to_thread.run_sync(counted, abandon_on_cancel=True)

    def _answer(self, wire: Wire, response: Any) -> Answer:
        """Return a reply with its price."""
        body: Body = response if isinstance(response, dict) else response.model_dump(mode="json", exclude_none=True)
        reply = wire.replies.read(body)
        cost = self._cost_usd(reply.usage, body, getattr(response, "_hidden_params", {}).get("response_cost"))
        usage = msgspec.structs.replace(reply.usage, cost_usd=cost)
        return Answer(reply=msgspec.structs.replace(reply, usage=usage), body=body)

    def _cost_usd(self, usage: Usage, body: Body, from_litellm: float | None) -> float | None:
        if self._model.price is not None:
            return cost_usd(self._model.price, usage)
        if from_litellm is None:
            from_litellm = _bundled_cost_usd(self.name, usage, body)
        return listed_cost_usd(from_litellm, usage, self.name, self._model.api_base)


def _bundled_cost_usd(name: str, usage: Usage, body: Body) -> float | None:
    """The price in litellm's table, for replies that come without one (those of Messages)."""
    from runners.models.litellm_library import litellm_library

    try:
        costs = litellm_library().cost_per_token(
            model=name,
            prompt_tokens=usage.input_tokens or 0,
            completion_tokens=usage.output_tokens or 0,
            cache_read_input_tokens=usage.cached_input_tokens or 0,
            cache_creation_input_tokens=token_count((body.get("usage") or {}).get("cache_creation_input_tokens")) or 0,
        )
    except Exception:  # noqa: BLE001  litellm raises a different class for each way of not knowing a name
        return None
    return float(sum(costs))


def _speaks(wire: Wire, provider: str, model: str) -> bool:
    """Whether litellm sends this wire to the provider as it is."""
    if wire.name == "chat":
        return True
    from runners.models.litellm_library import litellm_library

    litellm = litellm_library()
    try:
        known = litellm.LlmProviders(provider)
    except ValueError:
        return False
    configs = litellm.utils.ProviderConfigManager
    if wire.name == "responses":
        return configs.get_provider_responses_api_config(provider=known, model=model) is not None
    return configs.get_provider_anthropic_messages_config(model=model, provider=known) is not None


def _known_parameters(wire: Wire, qualified: str, provider: str, parameters: Mapping[str, Any]) -> frozenset[str]:
    """The names of the parameters that reach the provider."""
    from runners.models.litellm_library import litellm_library

    litellm: Any = litellm_library()
    names = frozenset(parameters)
    if wire.name == "responses" or provider in _TAKES_ALL:
        return names
    if wire.name == "messages":
        config = litellm.AnthropicMessagesConfig()
        return names & {*config.get_supported_anthropic_messages_params(model=qualified), "metadata"}
    openai = {name: value for name, value in parameters.items() if name in litellm.OPENAI_CHAT_COMPLETION_PARAMS}
    return frozenset(openai) - {*unsupported_parameters(qualified, openai)}


def _without_provider_tools(body: Body, request: WireRequest) -> Body:
    """Chat completions know functions and custom tools only; a provider's own tool would make it refuse the request."""
    if not any(tool.kind == "provider" for tool in request.tools):
        return body
    pairs = zip(body["tools"], request.tools, strict=True)
    kept = [wire for wire, tool in pairs if tool.kind != "provider"]
    return {**body, "tools": kept} if kept else {name: value for name, value in body.items() if name != "tools"}
