"""Forwards requests and streams unchanged to a provider that supports the agent's own wire.

Only necessary changes are made: model name, injected message, the experiment file's parameters, and credentials. A
streamed chat completion also requests usage, which is hidden from the agent unless it requested it too. A provider that
refuses what nobody asked for gets the request without it.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.clock import beside_loop
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models.costs import token_count
from lhaw_record.runners.models.exchanges import MOST_REPLY_BYTES, Exchange, http_session, proxy_of
from lhaw_record.runners.models.failures import (
    longer_reply,
    response_error,
    to_model_error,
    transport_error,
    without_refused,
)
from lhaw_record.runners.models.gateway.endpoints import ProviderEndpoint
from lhaw_record.runners.models.gateway.relay import StreamRelay
from lhaw_record.runners.models.gateway.upstream import OutgoingRequest, UpstreamAnswer, merged_parameters
from lhaw_record.runners.models.gateway.wires.protocol import QUICK, Body, WireFormat, WireRequest
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError, ModelReply
from lhaw_record.runners.models.provider_state import with_reasoning
from lhaw_record.runners.models.streams.joining import (
    DONE,
    USAGE_OPTION,
    ReplyStream,
    StreamedEvent,
    StreamStep,
    body_of,
    decoded,
    fields,
    joined_reply,
)

_MOST_ERROR_BYTES = 1 << 18  # a choice: far above any provider's error body
_SHOWN_HEADERS = ("x-ratelimit-", "anthropic-ratelimit-", "retry-after", "x-should-retry", "request-id", "x-request-id")

_REFUSED_BESIDE_THINKING = frozenset({"temperature", "top_k"})

"""Adds the cost to a reply; the body is the provider's."""


class NativePayload(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it is sent to the provider. ``added`` names the parameters in it that nobody asked for."""

    endpoint: ProviderEndpoint
    body: Body
    added: frozenset[str] = frozenset()

    def without(self, refused: Mapping[str, str | None]) -> "NativePayload":
        """Return the request without the refused parameters."""
        body = without_refused(self.body, refused)
        return msgspec.structs.replace(self, body=body, added=self.added - refused.keys())


def prepared(
    model: LitellmModel,
    endpoint: ProviderEndpoint,
    wire: WireFormat,
    request: WireRequest,
    messages: Sequence[Message],
    own: Body,
    left_out: Body,
) -> OutgoingRequest:
    """Return the outgoing request with its record. After a request without a response, it always uses streaming."""
    merged = merged_parameters(request.parameters, own)
    if wire.name == "messages" and "thinking" in own and _is_too_long(own["thinking"], merged.get("max_tokens")):
        left_out = {**left_out, "thinking": own["thinking"]}
        own = {name: value for name, value in own.items() if name != "thinking"}
        merged = merged_parameters(request.parameters, own)
    refused = _REFUSED_BESIDE_THINKING if wire.name == "messages" and "thinking" in own else frozenset()
    sent = {name: value for name, value in merged.items() if name not in refused}
    left_out = {**left_out, **{name: merged[name] for name in refused if name in merged}}
    body = {name: value for name, value in merged_parameters(request.body, own).items() if name not in refused}
    body = wire.requests.addressed(body, endpoint.model)
    seed = {"seed"} & (own.keys() - model.given - request.body.keys())
    added: dict[str, Any] = {}
    if model.was_silent(messages) and not request.is_streamed:
        request = msgspec.structs.replace(request, is_streamed=True)
        added = {"stream": True}
        body = body if wire.name == "gemini" else {**body, **added}
    asks_for_usage = wire.name == "chat" and request.is_streamed
    asks_for_usage = asks_for_usage and "stream_options" not in {*model.refused, *own}
    if asks_for_usage and not fields(body.get("stream_options")).get("include_usage"):
        added["stream_options"] = {**fields(body.get("stream_options")), **USAGE_OPTION}
        body = {**body, **added}
    recorded = {
        **sent,
        **({"headers": request.headers} if request.headers else {}),
        **({"added_parameters": added} if added else {}),
        **({"dropped_parameters": left_out} if left_out else {}),
    }
    payload = NativePayload(endpoint=endpoint, body=body, added=frozenset(seed | added.keys() & {"stream_options"}))
    return OutgoingRequest(wire=wire, request=request, messages=tuple(messages), recorded=recorded, payload=payload)


def _is_too_long(thinking: Any, max_tokens: Any) -> bool:
    """Return whether the thinking budget leaves no room for a reply, which Anthropic rejects."""
    budget, limit = token_count(fields(thinking).get("budget_tokens")), token_count(max_tokens)
    return budget is not None and limit is not None and budget >= limit


async def asked(
    model: LitellmModel, outgoing: OutgoingRequest, relay: StreamRelay | None, *, timeout_s: float
) -> UpstreamAnswer:
    """Send a request and read the whole reply, while the relay forwards a stream."""
    relay = relay or StreamRelay(None, outgoing.request, "", lambda _: True)

    async def send(refused: Mapping[str, str | None]) -> UpstreamAnswer:
        payload = outgoing.payload.without(refused)
        exchange = Exchange(sent=msgspec.json.encode(payload.body))
        readable = _reader_of_errors(model, payload.endpoint, exchange)
        with model.attempt(outgoing.messages, timeout_s, readable, relay.is_generating) as exchanges:
            exchanges.append(exchange)
            sent = msgspec.structs.replace(outgoing, payload=payload)
            answer = await _exchanged(sent, exchange, relay, model)
        reply = msgspec.structs.replace(answer.reply, exchange=exchange)
        return msgspec.structs.replace(answer, reply=reply, changes=dict.fromkeys(refused))

    return await model.unless_refused(outgoing.payload.added, send)


def _reader_of_errors(
    model: LitellmModel, endpoint: ProviderEndpoint, exchange: Exchange
) -> Callable[[Exception, list[Exchange]], ModelError | None]:
    """Return a function that converts connection errors into ModelError. Unsent requests have no exchange."""
    import aiohttp

    def readable(error: Exception, exchanges: list[Exchange]) -> ModelError | None:
        is_unwritable = isinstance(error, ValueError) and exchange.received is None  # a header with a line break
        if is_unwritable or isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            exchanges.remove(exchange)
        if is_unwritable:
            return to_model_error(error, model=model.name, secrets=[endpoint.key or ""], is_sent=False)
        if not isinstance(error, OSError | aiohttp.ClientError):
            return None
        return transport_error(error, model=model.name, secrets=[endpoint.key or ""])

    return readable


async def embedded(
    model: LitellmModel, endpoint: ProviderEndpoint, body: Body, name: str, *, timeout_s: float
) -> UpstreamAnswer:
    """Send an embedding request with this model name, and return an answer without text."""
    exchange = Exchange(sent=msgspec.json.encode(body))
    headers = endpoint.headers(WireRequest(body=body, model="", turns=()))
    url = endpoint.embeddings_url(name, body)
    with model.attempt((), timeout_s, _reader_of_errors(model, endpoint, exchange)) as exchanges:
        exchanges.append(exchange)
        proxy = proxy_of(endpoint.base)
        async with http_session().post(url, data=exchange.sent, headers=headers, proxy=proxy) as response:
            exchange.received = raw = await _bounded(response, MOST_REPLY_BYTES)
            shown = await _shown(response, raw, endpoint, model.name)
        answer = await beside_loop(len(raw) // QUICK, decoded, raw, "it")
    said = fields(answer.get("usage")).get("prompt_tokens"), fields(answer.get("usageMetadata")).get("promptTokenCount")
    usage = Usage(input_tokens=next((count for each in said if (count := token_count(each)) is not None), None))
    reply = ModelReply(
        message=Message(role="assistant", content=""),
        finish_reason="stop",
        usage=usage,
        served_model=answer.get("model") or None,
        exchange=exchange,
    )
    return UpstreamAnswer(reply=reply, body=answer, headers=shown)


async def _exchanged(
    outgoing: OutgoingRequest, exchange: Exchange, relay: StreamRelay, model: LitellmModel
) -> UpstreamAnswer:
    payload: NativePayload = outgoing.payload
    endpoint, request = payload.endpoint, outgoing.request
    sent = {"data": exchange.sent, "headers": endpoint.headers(request), "proxy": proxy_of(endpoint.base)}
    async with http_session().post(endpoint.url(request), **sent) as response:
        if request.is_streamed and response.status < 400 and response.content_type == "text/event-stream":
            exchange.received_media_type = response.content_type
            shown = await _shown(response, b"", endpoint, model.name)
            return await _streamed(outgoing, exchange, relay, response, shown, model)
        most_bytes = MOST_REPLY_BYTES if response.status < 400 else _MOST_ERROR_BYTES
        exchange.received = raw = await _bounded(response, most_bytes)
        shown = await _shown(response, raw, endpoint, model.name)
    if len(raw) >= MOST_REPLY_BYTES:
        raise longer_reply(model.name)
    return await beside_loop(len(raw) // QUICK, _answer, outgoing.wire, raw, shown, model)


def _answer(wire: WireFormat, raw: bytes, shown: dict[str, str], model: LitellmModel) -> UpstreamAnswer:
    body = decoded(raw, "it")
    return UpstreamAnswer(reply=_read(wire, body, model), body=body, headers=shown)


async def _shown(response: Any, raw: bytes, endpoint: ProviderEndpoint, name: str) -> dict[str, str]:
    """Return the response headers to pass on to the agent."""
    received = {key.lower(): value for key, value in response.headers.items()}
    shown = {key: value for key, value in received.items() if key.startswith(_SHOWN_HEADERS)}
    if response.status >= 400:
        secrets = [endpoint.key or ""]
        read = partial(response_error, response.status, received, raw, model=name, secrets=secrets, shown=shown)
        raise await beside_loop(len(raw), read)
    return shown


async def _streamed(
    outgoing: OutgoingRequest,
    exchange: Exchange,
    relay: StreamRelay,
    response: Any,
    shown: Mapping[str, str],
    model: LitellmModel,
) -> UpstreamAnswer:
    """Read a stream to its end, forwarding it through the relay."""
    wire, payload = outgoing.wire, outgoing.payload
    stream = wire.stream()
    relay.begin(wire, stream, shown)
    relay.partial_usage = lambda: _usage_so_far(wire, stream, model)
    received = bytearray()

    async def pieces() -> AsyncIterator[bytes]:
        async for piece in response.content.iter_any():
            received.extend(piece)
            yield piece

    def pass_on(event: StreamedEvent, step: StreamStep) -> None:
        if event.data is None:
            _pass_on_comment(relay, event)
        elif not ("stream_options" in payload.added and _is_only_usage(event.data)):
            relay.add(event, step)

    try:
        body = await joined_reply(pieces(), stream, pass_on, model=payload.endpoint.model)
    finally:
        exchange.received, exchange.calls_split_by = bytes(received), stream.calls_split_by
    return UpstreamAnswer(reply=_read(wire, body, model), body=body, headers=dict(shown))


async def _bounded(response: Any, most_bytes: int) -> bytes:
    """Read a response body up to a maximum size."""
    raw = bytearray()
    async for piece in response.content.iter_any():
        raw += piece
        if len(raw) >= most_bytes:
            break
    return bytes(raw)


def _pass_on_comment(relay: StreamRelay, event: StreamedEvent) -> None:
    """Forward an event without data. The end mark of a chunk stream is held back together with the chunks before it."""
    if event.name == DONE:
        relay.hold(event)
    else:
        relay.comment(event.raw)


def _is_only_usage(data: Body) -> bool:
    return data.get("choices") == [] and data.get("usage") is not None


def _read(wire: WireFormat, body: Body, model: LitellmModel) -> ModelReply:
    reply = with_reasoning(wire.replies.read(body), body)
    return msgspec.structs.replace(reply, usage=model.priced(reply.usage, body, reply.served_model))


def _usage_so_far(wire: WireFormat, stream: ReplyStream, model: LitellmModel) -> Usage | None:
    """Return the usage reported before a stream broke off, or by a reply that ended for no reason of the agent's."""
    body: Body = {}
    try:
        body = body_of(stream)
        return _read(wire, body, model).usage
    except ModelError as error:
        return model.priced(error.usage, body, error.served_model) if error.usage is not None else None
