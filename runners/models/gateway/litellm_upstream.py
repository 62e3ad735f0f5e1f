"""An upstream for any hosted model, which keeps requests in the agent's own wire if the provider supports it.

If the provider supports the wire natively, ``native_upstream.py`` forwards the request. Otherwise litellm sends it:
always for chat completions, and for Responses and Messages if litellm knows that the provider supports them. All other
requests are converted to a canonical conversation, which every provider accepts.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread
import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import Message, conversation_digest, to_wire, tool_to_wire
from lhaw_record.runners.models.chat_completions import read_chat
from lhaw_record.runners.models.chat_messages import wire_messages
from lhaw_record.runners.models.costs import cost_usd, failed_usage, listed_cost_usd
from lhaw_record.runners.models.exchanges import changed_parameters, watching
from lhaw_record.runners.models.failures import without_refused
from lhaw_record.runners.models.gateway import native_upstream
from lhaw_record.runners.models.gateway.embeddings import addressed
from lhaw_record.runners.models.gateway.endpoints import ProviderEndpoint, endpoint_of
from lhaw_record.runners.models.gateway.relay import StreamRelay
from lhaw_record.runners.models.gateway.upstream import (
    ModelUpstream,
    OutgoingRequest,
    UpstreamAnswer,
    merged_parameters,
    tools_left_out,
)
from lhaw_record.runners.models.gateway.wires import GEMINI
from lhaw_record.runners.models.gateway.wires.protocol import Body, WireFormat, WireRequest
from lhaw_record.runners.models.litellm_library import (
    OPENAI_COMPATIBLE,
    load_litellm,
    provider_of,
    reasoning_words,
    unsupported_parameters,
)
from lhaw_record.runners.models.litellm_model import LitellmModel, completion
from lhaw_record.runners.models.protocol import ModelError
from lhaw_record.runners.models.provider_state import decoded, read_state, with_reasoning
from lhaw_record.runners.models.streams.joining import fields

_TAKES_ALL = frozenset({OPENAI_COMPATIBLE, "openai", "hosted_vllm"})  # their servers reject unknown parameters
_NOT_SENT = frozenset({"model", "stream", "stream_options"})
_NOT_OFFERED = frozenset({401, 403, 404, 405, 501})  # for a model named by the agent; chat may still work


class _Call(msgspec.Struct, frozen=True):
    """The arguments for a litellm call in the agent's own wire."""

    arguments: dict[str, Any]


class LitellmUpstream:
    """A model called through litellm for agents of any wire. It does not retry, because agents retry themselves.

    Args:
        parameters: Generation parameters by their OpenAI names. They override the agent's parameters.
        timeout_s: Timeout of one request, in seconds.
        api_wires: The wires that the model's server supports. None for the provider's known wires.
    """

    def __init__(
        self,
        model: LitellmModel,
        parameters: Mapping[str, Any] | None = None,
        timeout_s: float = 600.0,
        api_wires: Sequence[str] | None = None,
    ) -> None:
        self.name = model.name
        self._model = model
        self._parameters = dict(parameters or {})
        self._timeout_s = timeout_s
        self._canonical = ModelUpstream(model, self._parameters, timeout_s)
        self._api_wires = api_wires
        self._endpoints: dict[str, ProviderEndpoint | None] = {}

    async def prepare(self, wire: WireFormat, request: WireRequest, messages: Sequence[Message]) -> OutgoingRequest:
        """Return the request unchanged if the provider supports its wire, else a litellm call's arguments."""
        await load_litellm()
        endpoint = self._endpoint(wire)
        if endpoint is not None:
            own, left_out = self._in_words_of(wire, endpoint.model)
            return native_upstream.prepared(self._model, endpoint, wire, request, messages, own, left_out)
        qualified = self._model.qualified_name
        provider, model = provider_of(qualified) or ("", qualified)
        if not _speaks(wire, provider, model):
            return await self._canonical.prepare(wire, request, messages)
        own, homeless = self._in_words_of(wire, model)
        parameters = merged_parameters(request.parameters, own)
        known = _known_parameters(wire, qualified, provider, parameters)
        left_out = {name: value for name, value in parameters.items() if name not in known}
        left_out |= homeless
        has_provider_tools = wire.name != "chat"
        body = {name: value for name, value in request.body.items() if name not in {*_NOT_SENT, *request.parameters}}
        if not has_provider_tools:
            body = _with_states(_without_provider_tools(body, request), messages)
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
        return OutgoingRequest(
            wire=wire, request=request, messages=tuple(messages), recorded=recorded, payload=_Call(arguments)
        )

    async def send(self, outgoing: OutgoingRequest, relay: StreamRelay | None = None) -> UpstreamAnswer:
        """Send the request and read the whole reply. The relay forwards a native stream meanwhile."""
        if isinstance(outgoing.payload, native_upstream.NativePayload):
            async with self._model.door.passage(lambda: conversation_digest(outgoing.messages)) as passage:
                answer = await native_upstream.asked(self._model, outgoing, relay, timeout_s=self._timeout_s)
                return msgspec.structs.replace(answer, reply=passage.answered(answer.reply))
        with watching() as exchanges:
            answer = await self._translated(outgoing)
        if not exchanges:
            return answer
        reply = msgspec.structs.replace(answer.reply, exchange=exchanges[-1])
        changes = changed_parameters(outgoing.recorded, exchanges[-1].sent)
        return msgspec.structs.replace(answer, reply=reply, changes=changes)

    async def _translated(self, outgoing: OutgoingRequest) -> UpstreamAnswer:
        """Send a request through litellm, in the agent's wire or as a canonical conversation."""
        if not isinstance(outgoing.payload, _Call):
            return await self._canonical.send(outgoing)
        await load_litellm()
        async with self._model.door.passage(lambda: conversation_digest(outgoing.messages)) as passage:
            answer = await self._sent(outgoing, outgoing.payload)
            return msgspec.structs.replace(answer, reply=passage.answered(answer.reply))

    async def _sent(self, outgoing: OutgoingRequest, call: _Call) -> UpstreamAnswer:
        litellm: Any = await load_litellm()
        asks = {"responses": litellm.aresponses, "messages": litellm.anthropic.messages.acreate}
        ask = asks.get(outgoing.wire.name)

        async def send(refused: Mapping[str, str | None]) -> UpstreamAnswer:
            arguments = without_refused(call.arguments, refused)
            if "extra_body" in arguments:
                arguments["extra_body"] = without_refused(arguments["extra_body"], refused)
            with self._model.calling_litellm(outgoing.messages, self._timeout_s) as exchanges:
                response = await (ask(**arguments) if ask else completion(exchanges, arguments))
                return self._answer(outgoing.wire, response, exchanges[-1].reply if exchanges else None)

        added = {"seed"} - self._model.given - outgoing.request.parameters.keys()
        return await self._model.unless_refused(added, send)

    async def embedding(
        self, wire: WireFormat, request: WireRequest, *, is_routed: bool
    ) -> Callable[[], Awaitable[UpstreamAnswer]]:
        """Return a function that sends an embedding request, with the agent's model name if ``is_routed`` is false.

        The agent sees the name that it asked for.
        """
        await load_litellm()
        endpoint = self._endpoint(wire)
        if endpoint is None:
            return await self._canonical.embedding(wire, request, is_routed=is_routed)
        if not is_routed:
            return partial(self._embedded, endpoint, request.body, request.model)
        body = addressed(request.body, endpoint.model, is_gemini=wire is GEMINI)
        return partial(self._embedded, endpoint, body, endpoint.model, shown_as=request.model)

    async def _embedded(
        self, endpoint: ProviderEndpoint, body: Body, model: str, shown_as: str | None = None
    ) -> UpstreamAnswer:
        async with self._model.embeddings_door.passage(lambda: digest(body)) as passage:
            try:
                answer = await native_upstream.embedded(self._model, endpoint, body, model, timeout_s=self._timeout_s)
            except ModelError as error:
                if error.http_status not in _NOT_OFFERED:
                    raise
                not_offered, error.held_s = error, passage.held_s
            else:
                cost = self._embeddings_cost_usd(answer.reply.usage, model)
                reply = msgspec.structs.replace(
                    answer.reply,
                    usage=msgspec.structs.replace(answer.reply.usage, cost_usd=cost),
                )
                shown = {**fields(answer.body), "model": shown_as} if "model" in fields(answer.body) else answer.body
                return msgspec.structs.replace(
                    answer, reply=passage.answered(reply), body=shown if shown_as is not None else answer.body
                )
        raise not_offered

    def failed_usage(self, error: ModelError, *, embeddings_of: str | None = None) -> Usage | None:
        """Return the known usage of a failed request: a cost of 0 if the model is free."""
        is_own = embeddings_of is None or self._is_own(embeddings_of)
        return failed_usage(error, self._model.price if is_own else None)

    async def count_tokens(self, request: WireRequest) -> int:
        """Return a request's token count by litellm's tokenizer for the model, which works offline."""
        litellm: Any = await load_litellm()
        messages = [to_wire(turn.message) for turn in request.turns]
        tools = [tool_to_wire(tool.definition) for tool in request.tools]

        def counted() -> int:
            return int(litellm.token_counter(model=self.name, messages=messages, tools=tools or None))

        return await anyio.to_thread.run_sync(counted, abandon_on_cancel=True)

    def _answer(self, wire: WireFormat, response: Any, received: bytes | None) -> UpstreamAnswer:
        """Parse a reply and add its price. ``received`` is the provider's own body."""
        body: Body = response if isinstance(response, dict) else response.model_dump(mode="json", exclude_none=True)
        own = decoded(received)
        state, said = read_state(own), own or body
        is_chat = wire.name == "chat"
        reply = with_reasoning(read_chat(body, self.name, own) if is_chat else wire.replies.read(body), said)
        if is_chat:
            turn = msgspec.structs.replace(reply.message, provider_state_json=state.provider_state_json)
            reply = msgspec.structs.replace(reply, message=turn)
        usage = self._model.priced(reply.usage, said, reply.served_model)
        return UpstreamAnswer(reply=msgspec.structs.replace(reply, usage=usage), body=body)

    def _in_words_of(self, wire: WireFormat, model: str) -> tuple[Body, Body]:
        """Return the experiment file's parameters translated to a wire, and those that the wire lacks."""
        own, homeless = wire.requests.from_openai(self._parameters)
        words, said = reasoning_words(wire.name, model, self._parameters)
        left_out = {name: self._parameters[name] for name in homeless if name not in said}
        return merged_parameters(own, words), left_out

    def _endpoint(self, wire: WireFormat) -> ProviderEndpoint | None:
        if wire.name not in self._endpoints:
            qualified = self._model.qualified_name
            provider, model = provider_of(qualified) or ("", qualified)
            base, key = self._model.api_base, self._model.api_key
            self._endpoints[wire.name] = endpoint_of(
                wire.name, provider, model, api_base=base, api_key=key, api_wires=self._api_wires
            )
        return self._endpoints[wire.name]

    def _embeddings_cost_usd(self, usage: Usage, asked: str) -> float | None:
        """Return the cost of embeddings at the requested model's price, which may differ from the entry's."""
        qualified = self._model.qualified_name
        if self._model.price is not None and self._is_own(asked):
            return cost_usd(self._model.price, usage)
        provider = (provider_of(qualified) or ("",))[0]
        listed = asked if asked.startswith(f"{provider}/") else f"{provider}/{asked}"
        return listed_cost_usd(usage, listed, self._model.api_base, None, {})

    def _is_own(self, asked: str) -> bool:
        """Return whether a name is that of the entry's own model, to which the entry's price applies."""
        qualified = self._model.qualified_name
        return asked in {self.name, qualified, qualified.partition("/")[2]}


def _speaks(wire: WireFormat, provider: str, model: str) -> bool:
    """Return whether litellm sends this wire to the provider unchanged. It accepts no requests in Gemini's format."""
    if wire.name in ("chat", "gemini"):
        return wire.name == "chat"
    from lhaw_record.runners.models.litellm_library import litellm_library

    litellm = litellm_library()
    try:
        known = litellm.LlmProviders(provider)
    except ValueError:
        return False
    configs = litellm.utils.ProviderConfigManager
    if wire.name == "responses":
        return configs.get_provider_responses_api_config(provider=known, model=model) is not None
    return configs.get_provider_anthropic_messages_config(model=model, provider=known) is not None


def _known_parameters(wire: WireFormat, qualified: str, provider: str, parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the parameters that reach the provider."""
    from lhaw_record.runners.models.litellm_library import litellm_library

    litellm: Any = litellm_library()
    names = frozenset(parameters)
    if wire.name == "responses" or provider in _TAKES_ALL:
        return names
    if wire.name == "messages":
        config = litellm.AnthropicMessagesConfig()
        return names & {*config.get_supported_anthropic_messages_params(model=qualified), "metadata"}
    openai = {name: value for name, value in parameters.items() if name in litellm.OPENAI_CHAT_COMPLETION_PARAMS}
    return frozenset(openai) - {*unsupported_parameters(qualified, openai)}


def _with_states(body: Body, messages: Sequence[Message]) -> Body:
    """Restore the provider state of replies in a chat completions history.

    Most agents drop fields that are not part of the format, and other providers reject a history without them.
    """
    pairs = zip(body["messages"], messages, strict=True)
    restored = [wire_messages([message]) if message.provider_state_json else [wire] for wire, message in pairs]
    return {**body, "messages": [wire for wires in restored for wire in wires]}


def _without_provider_tools(body: Body, request: WireRequest) -> Body:
    """Remove provider tools, because chat completions support only function and custom tools and reject others."""
    if not any(tool.kind == "provider" for tool in request.tools):
        return body
    pairs = zip(body["tools"], request.tools, strict=True)
    kept = [wire for wire, tool in pairs if tool.kind != "provider"]
    return {**body, "tools": kept} if kept else {name: value for name, value in body.items() if name != "tools"}
