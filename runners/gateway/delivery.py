"""The way of a reply to the agent: waiting with signs of life, sending at the reader's pace, noticing who has left."""

from collections.abc import Iterable, Iterator

import anyio
import msgspec
from starlette.types import Receive, Send

from runners.gateway.errors import Refusal
from runners.gateway.session import Served, TrialSession
from runners.gateway.wires.protocol import Body, Wire, WireRequest

JSON = b"application/json"
SSE = b"text/event-stream"
PING = b": ping\n\n"
_PIECE_BYTES = 64 * 1024


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for what, in seconds.

    A stream begins with its reply, so that a failure still has its HTTP status; a reply that takes longer than
    ``first_byte_s`` gets a stream of pings before it. ``slow_reader_s`` is for taking one whole reply.
    """

    first_byte_s: float = 30.0
    ping_s: float = 15.0
    slow_reader_s: float = 600.0


async def deliver(
    session: TrialSession,
    wire: Wire,
    request: WireRequest,
    headers: Iterable[tuple[str, str]],
    receive: Receive,
    send: Send,
    patience: Patience,
) -> None:
    """Answer one request over HTTP. A client that leaves ends the call, and the session is told of a lost reply."""
    outcome: list[Served | Refusal] = []
    is_done = anyio.Event()
    is_delivered = False

    async def work() -> None:
        outcome.append(await _outcome(session, wire, request, headers))
        is_done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(_cancel_when_gone, receive, group.cancel_scope)
        group.start_soon(work)
        has_begun = request.is_streamed and await _waited_with_pings(is_done, send, patience)
        await is_done.wait()
        with anyio.move_on_after(patience.slow_reader_s):
            await _send_outcome(outcome[0], wire, request, send, has_begun=has_begun)
            is_delivered = True
        group.cancel_scope.cancel()
    if outcome and isinstance(outcome[0], Served) and not is_delivered:
        session.not_delivered(outcome[0])


async def send_json(
    send: Send, status: int, body: Body, headers: Iterable[tuple[bytes, bytes]] = (), *, is_head: bool = False
) -> None:
    """Send one JSON answer."""
    payload = msgspec.json.encode(body)
    length = str(len(payload)).encode()
    fields = [(b"content-type", JSON), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await _send_body(send, iter(() if is_head else (payload,)))


async def send_refusal(send: Send, wire: Wire, refusal: Refusal) -> None:
    """Send a refusal in the dialect of the wire."""
    seconds = refusal.retry_after_s
    headers = [(b"retry-after", f"{seconds:.3f}".rstrip("0").rstrip(".").encode())] if seconds is not None else []
    await send_json(send, refusal.status, wire.replies.error(refusal.status, refusal.kind, str(refusal)), headers)


async def _outcome(
    session: TrialSession, wire: Wire, request: WireRequest, headers: Iterable[tuple[str, str]]
) -> Served | Refusal:
    try:
        return await session.respond(wire, request, headers)
    except Refusal as refusal:
        return refusal
    except Exception:  # noqa: BLE001 - it stands in session.failure and ends the trial; the agent is told no details
        return Refusal("the gateway failed and the trial ends", status=500, kind="server_error")


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _waited_with_pings(is_done: anyio.Event, send: Send, patience: Patience) -> bool:
    """Wait for the reply to a streamed request; returns whether the stream has begun before there was one."""
    with anyio.move_on_after(patience.first_byte_s):
        await is_done.wait()
    if is_done.is_set():
        return False
    await _begin_stream(send)
    while not is_done.is_set():
        await send({"type": "http.response.body", "body": PING, "more_body": True})
        with anyio.move_on_after(patience.ping_s):
            await is_done.wait()
    return True


async def _send_outcome(
    outcome: Served | Refusal, wire: Wire, request: WireRequest, send: Send, *, has_begun: bool
) -> None:
    if isinstance(outcome, Refusal) and not has_begun:
        await send_refusal(send, wire, outcome)
        return
    if isinstance(outcome, Served) and not request.is_streamed:
        await send_json(send, 200, outcome.body)
        return
    if not has_begun:
        await _begin_stream(send)
    if isinstance(outcome, Refusal):
        events: Iterator[bytes] = iter([wire.replies.error_event(outcome.status, outcome.kind, str(outcome))])
    else:
        events = wire.replies.events(outcome.body, request)
    await _send_body(send, events)


async def _begin_stream(send: Send) -> None:
    headers = [(b"content-type", SSE), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_body(send: Send, parts: Iterator[bytes]) -> None:
    """Send a body at its reader's pace: the server holds one piece back at most, so what is sent was nearly read."""
    for piece in _pieces(parts):
        await anyio.lowlevel.checkpoint()  # a client that has left is noticed before the reply counts as sent
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await anyio.lowlevel.checkpoint()
    await send({"type": "http.response.body", "body": b""})


def _pieces(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join small parts and cut large ones."""
    piece = bytearray()
    for part in parts:
        piece += part
        while len(piece) >= _PIECE_BYTES:
            yield bytes(piece[:_PIECE_BYTES])
            del piece[:_PIECE_BYTES]
    yield bytes(piece)
