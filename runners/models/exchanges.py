"""Captures the bodies of requests and replies at litellm's HTTP transports, and stores them by content hash.

``with watching() as exchanges`` collects every request sent in that context. :class:`WireRecord` stores the bodies if
the run asks for that. Providers that use one of the gateway's wire formats are called with aiohttp, which takes a third
of the CPU time per call that httpx takes.
"""

import asyncio
import hashlib
import ipaddress
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import anyio.to_thread
import msgspec

from lhaw_record.recorder.events import ArtifactStored, Wire
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.clock import beside_loop
from lhaw_record.runners.base.conversation.actions import MOST_LEVELS, decoded_arguments
from lhaw_record.runners.base.text.fields import most_nesting, shallow_json
from lhaw_record.runners.experiment.values import WireMode

MOST_REPLY_BYTES = 64 << 20
"""A choice: twice the longest reply of current providers (128,000 tokens at about 250 bytes each in a stream)."""
_JSON = "application/json"
_ARGUMENTS = re.compile(rb'("arguments"\s*:\s*)("(?:[^"\\]|\\.)*")', re.DOTALL)
_OF_A_BODY = frozenset({"content-length", "content-encoding", "content-type", "transfer-encoding"})
_RECORDED_ASIDE = frozenset({"headers", "added_parameters", "dropped_parameters", "dropped_tools", "deferred_tools"})
_CONVERSATION = frozenset(
    {"model", "messages", "system", "input", "instructions", "contents", "system_instruction", "tools"}
)


class Exchange(msgspec.Struct, kw_only=True):
    """The bodies of one request and its reply, without the content encoding.

    ``http_status`` is None until a reply begins, and always for a provider called without litellm. ``received`` is None
    until the reply's body arrives, and incomplete if the reply was cut off. ``joined`` is the whole reply assembled
    from a stream, and ``calls_split_by`` is what told its tool calls apart (``ReplyStream``). ``received_bytes`` counts
    what litellm's transports received.
    """

    sent: bytes
    sent_media_type: str = _JSON
    http_status: int | None = None
    received: bytes | None = None
    received_media_type: str = _JSON
    joined: bytes | None = None
    calls_split_by: str | None = None
    received_bytes: int = 0

    @property
    def is_too_long(self) -> bool:
        """Whether the reply was broken off for its length."""
        return self.received_bytes > MOST_REPLY_BYTES

    @property
    def reply(self) -> bytes | None:
        """The reply's body in unstreamed form."""
        return self.received if self.joined is None else self.joined


def wire_facts(
    exchange: Exchange | None,
    *,
    changes: Mapping[str, Any] | None = None,
    first_token_ms: float | None = None,
    notation: str | None = None,
) -> Wire | None:
    """Return the wire data recorded with a call's event, or None if nothing is known.

    Args:
        exchange: The bodies; only their digests are recorded.
        changes: Parameters that a library changed before sending.
        first_token_ms: Time to the first chunk of a stream.
        notation: The notation of a tool call left in the reply's text.
    """
    if exchange is None:
        return None if notation is None else Wire(call_in_text=notation)
    received = None if exchange.received is None else hashlib.sha256(exchange.received).hexdigest()
    return Wire(
        sent_sha256=hashlib.sha256(exchange.sent).hexdigest(),
        received_sha256=received,
        first_token_ms=first_token_ms,
        changes_json=canonical_json(dict(changes)).decode() if changes else None,
        call_in_text=notation,
        calls_split_by=exchange.calls_split_by,
    )


def changed_parameters(recorded: Mapping[str, Any], sent: bytes) -> dict[str, Any]:
    """Return each parameter that a library changed, with the value sent, or None if it was dropped."""
    try:
        body = msgspec.json.decode(sent, type=dict[str, msgspec.Raw])  # skips decoding the conversation
        got = {name: msgspec.json.decode(value) for name, value in body.items() if name not in _CONVERSATION}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    if not got.get("stream"):
        got.pop("stream", None)  # absent from recorded parameters means unstreamed
    asked = {name: value for name, value in recorded.items() if name not in _RECORDED_ASIDE}
    return {name: got.get(name) for name in sorted({*asked, *got}) if got.get(name) != asked.get(name)}


class WireRecord:
    """Stores the bodies of exchanges as artifacts if the mode is ``full``.

    Secrets are redacted before storage, so the hash of an artifact that had a secret differs from the digest of its
    body.

    Args:
        mode: ``full`` to store bodies, ``digest`` to store none.
        keep: Redacts and stores bytes, and returns their SHA-256 and length. It blocks.
    """

    def __init__(self, mode: WireMode = "digest", keep: Callable[[bytes], tuple[str, int]] | None = None) -> None:
        self._keep = keep if mode == "full" else None

    async def kept(self, call_id: str, exchange: Exchange | None) -> tuple[ArtifactStored, ...]:
        """Store the bodies of a call's exchange, and return the events to append before the call's reply or failure."""
        if self._keep is None or exchange is None:
            return ()
        bodies = [("wire_request", exchange.sent, exchange.sent_media_type)]
        if exchange.received is not None:
            bodies.append(("wire_reply", exchange.received, exchange.received_media_type))
        events = []
        for role, body, media_type in bodies:
            sha256, size = await anyio.to_thread.run_sync(self._keep, body)
            events.append(
                ArtifactStored(sha256=sha256, media_type=media_type, size_bytes=size, role=role, name=call_id)
            )
        return tuple(events)


Handle = Callable[[Any], Awaitable[Any]]
Sender = Callable[[Handle, Any], Awaitable[Any]]
"""Sends an httpx request through a transport, and returns its response."""

_watch: ContextVar[tuple[list[Exchange], Sender | None] | None] = ContextVar("watch", default=None)


@contextmanager
def watching(sender: Sender | None = None) -> Iterator[list[Exchange]]:
    """Collect the exchanges of every request in this context, in order. Nested blocks share one list.

    A sender, including one set by an outer block, replaces litellm's own transport.
    """
    outer = _watch.get()
    exchanges, outer_sender = ([], None) if outer is None else outer
    token = _watch.set((exchanges, sender or outer_sender))
    try:
        yield exchanges
    finally:
        _watch.reset(token)


def watch_transports() -> None:
    """Patch litellm's HTTP transports to report what they send and receive. Call once, after importing litellm."""
    import httpx
    from litellm.llms.custom_httpx.aiohttp_transport import LiteLLMAiohttpTransport

    transports: tuple[Any, ...] = (LiteLLMAiohttpTransport, httpx.AsyncHTTPTransport)
    for transport in transports:
        transport.handle_async_request = _reporting(transport.handle_async_request)


def _reporting(handle: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    import aiohttp
    import httpcore
    import httpx

    unsent = (aiohttp.ClientConnectorError, httpcore.ConnectError, httpcore.ConnectTimeout)  # no connection was made

    async def handle_async_request(transport: Any, request: Any) -> Any:
        watch = _watch.get()
        if watch is None:
            return await handle(transport, request)
        exchanges, sender = watch
        send = partial(reported, transport, exchanges)
        return await (send(request) if sender is None else sender(send, request))

    async def reported(transport: Any, exchanges: list[Exchange], request: Any) -> Any:
        sent = await request.aread()
        exchange = Exchange(sent=bytes(sent), sent_media_type=_media_type(request.headers))
        exchanges.append(exchange)
        try:
            response = await handle(transport, request)
        except httpx.TransportError as error:
            if isinstance(error.__cause__, unsent):
                exchanges.remove(exchange)
            raise
        except ValueError:  # a header that cannot be written, such as a key with a line break
            exchanges.remove(exchange)
            raise
        exchange.http_status = response.status_code
        exchange.received_media_type = _media_type(response.headers)
        response.stream = _reported_stream(response, exchange)
        response.extensions["exchange"] = exchange
        if exchange.received_media_type != _JSON:
            return response
        await response.aread()
        body = exchange.received or b""
        if not _may_nest_deep(body):
            return response
        return await beside_loop(len(body), whole_response, response, body)

    return handle_async_request


def whole_response(response: Any, body: bytes) -> Any:
    """Return a response with this JSON in place of its own body, so that litellm can read it however deep it nests."""
    import httpx

    if _may_nest_deep(body):
        body = shallow_json(_ARGUMENTS.sub(_quoted_if_deep, body))
    headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _OF_A_BODY]
    headers.append(("content-type", _JSON))
    return httpx.Response(response.status_code, headers=headers, content=body, extensions=response.extensions)


def _may_nest_deep(body: bytes) -> bool:
    """Return whether there are enough brackets, texts included: arguments are JSON in a text."""
    return body.count(b"[") + body.count(b"{") > MOST_LEVELS


def _quoted_if_deep(found: re.Match[bytes]) -> bytes:
    """Quote arguments that nest too deep: litellm decodes them, and reads the text of malformed ones."""
    try:
        text = msgspec.json.decode(found[2], type=str)
    except msgspec.DecodeError:
        return found[0]
    is_deep = most_nesting(text.encode()) > MOST_LEVELS and decoded_arguments(text) is None
    return found[1] + msgspec.json.encode(msgspec.json.encode(text).decode()) if is_deep else found[0]


def _media_type(headers: Any) -> str:
    return str(headers.get("content-type", _JSON)).partition(";")[0].strip()


def _reported_stream(response: Any, exchange: Exchange) -> Any:
    """Wrap the reply's body in a stream that also collects it."""
    import httpx

    inner = response.stream

    class Reported(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            chunks: list[bytes] = []
            try:
                async for chunk in inner:
                    chunks.append(chunk)
                    exchange.received_bytes += len(chunk)
                    if exchange.is_too_long:
                        raise httpx.ReadError(f"it is longer than {MOST_REPLY_BYTES:,} bytes")
                    yield chunk
            finally:
                exchange.received = _decoded(b"".join(chunks), response.headers)

        async def aclose(self) -> None:
            await inner.aclose()

    return Reported()


def _decoded(body: bytes, headers: Any) -> bytes:
    """Return a body without its content encoding, or unchanged if it cannot be decoded."""
    import httpx

    encoding = headers.get("content-encoding")
    if not encoding:
        return body
    try:
        return httpx.Response(200, headers={"content-encoding": encoding}, content=body).content
    except httpx.DecodingError:
        return body


_EXCEPTIONS = ("NO_PROXY", "no_proxy")
_SESSIONS: "WeakKeyDictionary[asyncio.AbstractEventLoop, Any]" = WeakKeyDictionary()
_IDLE_S = 60.0  # a choice; providers close idle connections, and a call on a closing one would fail
_CONNECT_S = 30.0  # a choice: several times the SYN retransmission delays (1, 2 and 4 s, RFC 6298)


def http_session() -> Any:
    """Return the HTTP session of the running event loop, which has no timeouts and keeps no cookies."""
    import aiohttp

    loop = asyncio.get_running_loop()
    session = _SESSIONS.get(loop)
    if session is None or session.closed:
        session = _SESSIONS[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"accept-encoding": "identity"},
            auto_decompress=True,
        )
    return session


@cache
def proxy_of(base: str) -> str | None:
    """Return the proxy configured in the environment for an address, or None; litellm decides in the same way.

    aiohttp's ``trust_env`` would look it up in a thread, and read ~/.netrc in another, before every request.
    """
    parts, proxies = urlsplit(base), getproxies()
    leave_to_itself(parts.hostname or "")
    proxy = None if proxy_bypass(parts.hostname or "") else proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def leave_to_itself(*hosts: str) -> None:
    """Except this machine's own addresses from the environment's proxies, for every library in this process.

    A proxy would look for them on its own machine.
    """
    own = [host for host in hosts if host == "localhost" or host.endswith(".localhost") or _is_loopback(host)]
    before = [os.environ.get(name, "") for name in _EXCEPTIONS]
    listed = {host.strip() for value in before for host in value.split(",")} - {""}
    if "*" not in listed and not listed.issuperset(own):
        for name in _EXCEPTIONS:  # where both are set, libraries read only one
            os.environ[name] = ",".join(sorted({*listed, *own}))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def close_http_session() -> None:
    """Close the connections of the running event loop."""
    session = _SESSIONS.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()
