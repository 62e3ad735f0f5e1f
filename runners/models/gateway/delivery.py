"""Sends a reply to the agent: pings while the agent waits, at the reader's pace, and detects clients that leave."""

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
_PIECE_BYTES = 64 * 1024  # the high-water mark of uvicorn's flow control, above which a send waits for the reader


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits for a delivery, in seconds.

    A stream begins with the provider's first event, so that a failure before can still set the HTTP status. If that
    takes longer than ``first_byte_s``, the stream begins with a ping. A stream that is silent for ``ping_s`` gets one.
    ``slow_reader_s`` is the time that a client may take to read the rest of a reply that is ready. All are choices: the
    first two are below the idle limits of common clients and proxies (60 s), the last is as long as a request may take.
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
    """Answer one request over HTTP. What the provider streams goes out as it comes.

    If the client leaves, its call is cancelled. The session is told if a reply was not delivered.
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
        if not is_delivered:  # a server also says so after the last piece: on the usual way nothing is cancelled
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
    """A buffer between a stream and its reader. It accepts everything at once, and is read at the reader's pace.

    A stream normally begins with its first event, so that a failure before can still set the HTTP status.
    """

    def __init__(self, send: Send, wire: WireFormat, patience: Patience) -> None:
        self.has_begun = False
        self._send = send
        self._wire = wire
        self._patience = patience
        self._shown: Mapping[str, str] = {}
        self._waiting: list[bytes] = []
        self._news = anyio.Event()
        self._is_closed = False

    def begin(self, headers: Mapping[str, str]) -> None:
        """Take the provider's headers. They come too late for a stream that has begun with a ping."""
        self._shown = headers

    def put(self, piece: bytes) -> None:
        """Take a piece of the stream."""
        self._waiting.append(piece)
        self._news.set()

    def close(self) -> None:
        """End the flow: the rest of the reply is ready, or there is none."""
        self._is_closed = True
        self._news.set()

    async def flow(self) -> None:
        """Send what comes, and pings while nothing does, until the reply is ready."""
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
    """Send one JSON answer."""
    payload = msgspec.json.encode(body)
    length = str(len(payload)).encode()
    fields = [(b"content-type", JSON), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await _send_body(send, iter(() if is_head else (payload,)))


async def send_refusal(send: Send, wire: WireFormat, refusal: GatewayRefusal) -> None:
    """Send a refusal in the error format of the wire."""
    headers = dict(refusal.headers)
    if refusal.retry_after_s is not None:
        headers.setdefault("retry-after", f"{refusal.retry_after_s:.3f}".rstrip("0").rstrip("."))
    body = refusal.body or wire.replies.error(refusal.status, refusal.kind, str(refusal))
    await send_json(send, refusal.status, body, _encoded(headers))


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers.items()]


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
    """Send a body at its reader's pace.

    The server buffers at most one piece, so nearly all that was sent has been read.
    """
    last = b""
    for piece in _pieces(parts):
        await anyio.lowlevel.checkpoint()  # notice a client that has left before the reply counts as sent
        if last:
            await send({"type": "http.response.body", "body": last, "more_body": True})
            await anyio.lowlevel.checkpoint()
        last = piece
    await send({"type": "http.response.body", "body": last})


def _pieces(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join small parts and split large ones into pieces of 64 KiB. The last piece may be shorter."""
    piece = bytearray()
    for part in parts:
        piece += part
        while len(piece) >= _PIECE_BYTES:
            yield bytes(piece[:_PIECE_BYTES])
            del piece[:_PIECE_BYTES]
    yield bytes(piece)
