"""Delivers replies to the agent: sends pings while it waits, respects backpressure, and detects disconnected
clients.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import anyio
import msgspec
from starlette.types import Receive, Send

from lhaw_record.runners.models.gateway.calls import SessionReply
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.relay import Outlet
from lhaw_record.runners.models.gateway.session import TrialSession
from lhaw_record.runners.models.gateway.wires.protocol import Body, WireFormat, WireRequest

JSON = b"application/json"
SSE = b"text/event-stream"
_PIECE_BYTES = 64 * 1024  # uvicorn's high-water mark, above which a send waits for the reader


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits for a delivery, in seconds.

    A stream normally begins with the provider's first event, so that an earlier failure can still set the HTTP status.
    If that takes longer than ``first_byte_s``, the stream begins with a ping. After ``ping_s`` of silence, a ping is
    sent. ``slow_reader_s`` is how long a client may take to read the rest of a finished reply. All are choices: the
    first two are below the idle timeout of common clients and proxies (60 s), the last is as long as a request may
    take.
    """

    first_byte_s: float = 30.0
    ping_s: float = 15.0
    slow_reader_s: float = 600.0


async def deliver(
    session: TrialSession,
    respond: Callable[[Outlet], Awaitable[SessionReply]],
    wire: WireFormat,
    request: WireRequest,
    receive: Receive,
    send: Send,
    patience: Patience,
) -> None:
    """Answer one request over HTTP, and stream the provider's output as it arrives.

    If the client disconnects, its call is cancelled. The session is notified if a reply was not delivered.
    """
    outcome: list[SessionReply | GatewayRefusal] = []
    outlet = _Outlet(send, wire, patience)
    is_delivered = False

    async def work() -> None:
        outcome.append(await _outcome(respond(outlet)))
        group.cancel_scope.deadline = anyio.current_time() + patience.slow_reader_s
        outlet.close()

    async def cancel_when_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if not is_delivered:  # servers also report a disconnect after a complete delivery
            outlet.is_abandoned = True
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel_when_gone)
        if request.is_streamed:
            group.start_soon(work)
            await outlet.flow()
        else:
            await work()
        await _send_outcome(outcome[0], wire, request, send, has_begun=outlet.has_begun)
        is_delivered = True
    if outcome and isinstance(outcome[0], SessionReply) and not is_delivered:
        session.not_delivered(outcome[0])


class _Outlet:
    """An unbounded buffer between a stream and its reader, so that a slow client does not block the provider's
    stream.
    """

    def __init__(self, send: Send, wire: WireFormat, patience: Patience) -> None:
        self.has_begun = False
        self.is_abandoned = False
        self._send = send
        self._wire = wire
        self._patience = patience
        self._shown: Mapping[str, str] = {}
        self._waiting: list[bytes] = []
        self._news = anyio.Event()
        self._is_closed = False

    def begin(self, headers: Mapping[str, str]) -> None:
        """Set the provider's headers. They are ignored if the stream has already begun with a ping."""
        self._shown = headers

    def put(self, piece: bytes) -> None:
        self._waiting.append(piece)
        self._news.set()

    def close(self) -> None:
        """Close the buffer: the rest of the reply is ready, or there is none."""
        self._is_closed = True
        self._news.set()

    async def flow(self) -> None:
        """Send chunks as they arrive, and pings in between, until the reply is ready."""
        while True:
            wait_s = self._patience.ping_s if self.has_begun else self._patience.first_byte_s
            with anyio.move_on_after(wait_s):
                await self._news.wait()
            if self._is_closed and not self._waiting:
                return
            self._news = self._news if self._is_closed else anyio.Event()
            piece, self._waiting = b"".join(self._waiting) or self._wire.ping, []
            if not self.has_begun:
                await _begin_stream(self._send, self._shown)
                self.has_begun = True
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})


async def send_json(
    send: Send, status: int, body: Body, headers: Iterable[tuple[bytes, bytes]] = (), *, is_head: bool = False
) -> None:
    payload = msgspec.json.encode(body)
    length = str(len(payload)).encode()
    fields = [(b"content-type", JSON), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await _send_body(send, iter(() if is_head else (payload,)))


async def send_refusal(send: Send, wire: WireFormat, refusal: GatewayRefusal) -> None:
    """Send a refusal in the wire's error format."""
    headers = dict(refusal.headers)
    if refusal.retry_after_s is not None:
        headers.setdefault("retry-after", f"{refusal.retry_after_s:.3f}".rstrip("0").rstrip("."))
    body = refusal.body or wire.replies.error(refusal.status, refusal.kind, str(refusal))
    await send_json(send, refusal.status, body, _encoded(headers))


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as the bytes that came, which aiohttp decodes so."""
    how = "utf-8", "surrogateescape"
    return [(name.encode(*how), value.encode(*how)) for name, value in headers.items()]


async def _outcome(reply: Awaitable[SessionReply]) -> SessionReply | GatewayRefusal:
    try:
        return await reply
    except GatewayRefusal as refusal:
        return refusal
    except Exception:  # noqa: BLE001 - session.failure keeps it and it ends the trial; the agent is told no details
        return GatewayRefusal("the gateway failed and the trial ends", status=500, kind="server_error")


async def _send_outcome(
    outcome: SessionReply | GatewayRefusal, wire: WireFormat, request: WireRequest, send: Send, *, has_begun: bool
) -> None:
    if isinstance(outcome, GatewayRefusal) and not has_begun:
        await send_refusal(send, wire, outcome)
        return
    if isinstance(outcome, SessionReply) and not request.is_streamed:
        await send_json(send, 200, outcome.body, _encoded(outcome.headers))
        return
    if not has_begun:
        await _begin_stream(send, outcome.headers)
    if isinstance(outcome, GatewayRefusal):
        events: Iterator[bytes] = iter([wire.replies.error_event(outcome.status, outcome.kind, str(outcome))])
    elif outcome.rest is not None:
        events = iter([outcome.rest])
    else:
        events = wire.replies.events(outcome.body, request)
    await _send_body(send, events)


async def _begin_stream(send: Send, shown: Mapping[str, str] = MappingProxyType({})) -> None:
    headers = [(b"content-type", SSE), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
    headers += _encoded(shown)
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_body(send: Send, parts: Iterator[bytes]) -> None:
    """Send a body with backpressure: at most one chunk is buffered, so nearly all that was sent has been read."""
    last = b""
    for piece in _pieces(parts):
        await anyio.lowlevel.checkpoint()  # detect a disconnect before the reply counts as sent
        if last:
            await send({"type": "http.response.body", "body": last, "more_body": True})
            await anyio.lowlevel.checkpoint()
        last = piece
    await send({"type": "http.response.body", "body": last})


def _pieces(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Rechunk a body into 64 KiB chunks; the last may be shorter."""
    piece = bytearray()
    for part in parts:
        piece += part
        while len(piece) >= _PIECE_BYTES:
            yield bytes(piece[:_PIECE_BYTES])
            del piece[:_PIECE_BYTES]
    yield bytes(piece)
