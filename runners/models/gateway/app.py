"""The gateway's HTTP application. Each trial has its own address, where its agent uses one of four wire formats.

The key in the path is a secret: any client that knows it is treated as the trial's agent. A trial may also require a
token, sent as a bearer token or in the headers that Anthropic's, Azure's and Google's clients use. Trials are looked up
by a digest of their key, and tokens are compared in constant time, to prevent timing attacks.
"""

import hashlib
import json
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from lhaw_record.runners.base.clock import TrialClock, beside_loop
from lhaw_record.runners.base.text.fields import MOST_PARTS, has_too_many_parts, shallow_json, with_valid_text
from lhaw_record.runners.models.gateway import embeddings
from lhaw_record.runners.models.gateway.delivery import Patience, deliver, send_json, send_refusal
from lhaw_record.runners.models.gateway.embeddings import EMBEDDINGS
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.session import TrialSession
from lhaw_record.runners.models.gateway.wires import CHAT, GEMINI, MESSAGES, RESPONSES, WIRES
from lhaw_record.runners.models.gateway.wires.protocol import QUICK, Body, WireFormat, WireRequest

_METHODS = ["GET", "HEAD", "POST"]  # Starlette answers the others with 405
_FEATURE_HEADERS = frozenset({"anthropic-beta", "anthropic-version", "openai-beta"})
_TOKEN_HEADERS = ("x-api-key", "api-key", "x-goog-api-key")  # of Anthropic, Azure and Google
_VERSIONS = re.compile(r"(v1|v1beta|v1alpha|openai)(/|$)")
_DEPLOYMENT = re.compile(r"deployments/[^/]+/")
_GEMINI = re.compile(r"models/(?P<model>[^:]+):(?P<method>\w+)")
_SHARES = 4
_SMALL = 32  # a choice: a request of a typical agent is below this part of a share
_ARRIVAL_S = 300.0  # a choice: a body that does not arrive would keep its memory from others
_UPGRADE = [(b"upgrade", b"HTTP/1.1"), (b"connection", b"Upgrade")]


class _Trial(msgspec.Struct, frozen=True):
    session: TrialSession
    token: str | None


@dataclass(eq=False)
class _Held:
    """A request that has memory for its body, or waits for it."""

    trial: str
    size_bytes: int
    turn: anyio.Event


class BodyMemory:
    """The memory for the bodies of requests that are not answered yet: a trial holds one share of it, all trials four.

    A request without room waits before its body is read, so that the bytes stay with its client. A quarter is for
    trials that hold little, so that they do not wait for the large requests of others.

    Args:
        share_bytes: The largest body.
    """

    def __init__(self, share_bytes: int) -> None:
        self._share_bytes = share_bytes
        self._requests: list[_Held] = []

    @asynccontextmanager
    async def hold(self, trial: str, size_bytes: int, clock: TrialClock) -> AsyncIterator[_Held]:
        """Hold memory for a request, once there is some. To wait for it is not the agent's time."""
        request = _Held(trial, size_bytes, anyio.Event())
        self._requests.append(request)
        try:
            self._let_in()
            if not request.turn.is_set():
                with clock.holding(None):
                    await request.turn.wait()
            yield request
        finally:
            self._requests.remove(request)
            self._let_in()

    def shrink(self, request: _Held, size_bytes: int) -> None:
        """Hold only what the body has turned out to need."""
        request.size_bytes = size_bytes
        self._let_in()

    def _let_in(self) -> None:
        """Let in those that wait, in order, but for what waits for its own trial, and small ones before large ones."""
        held: Counter[str] = Counter()
        is_next_large = True
        for each in self._requests:
            held[each.trial] += each.size_bytes * each.turn.is_set()
        for each in self._requests:
            own_bytes = held[each.trial] + each.size_bytes
            is_large = own_bytes * _SMALL > self._share_bytes
            if each.turn.is_set() or own_bytes > self._share_bytes or (is_large and not is_next_large):
                continue
            if held.total() + each.size_bytes > (_SHARES - is_large) * self._share_bytes:
                is_next_large = False
                continue
            held[each.trial] = own_bytes
            each.turn.set()


class Gateway:
    """The open trials of one process.

    Args:
        max_body_bytes: Requests with a larger body are refused.
    """

    def __init__(self, *, max_body_bytes: int = 64 << 20, patience: Patience | None = None) -> None:
        self._max_body_bytes = max_body_bytes
        self._memory = BodyMemory(max_body_bytes)
        self._patience = patience or Patience()
        self._trials: dict[bytes, _Trial] = {}

    def open(self, key: str, session: TrialSession, token: str | None = None) -> None:
        """Accept requests for a trial at ``/t/KEY``. The key must be long, random and URL-safe."""
        if _digest(key) in self._trials:
            raise ValueError("a trial with this key is open; use a new random key")
        self._trials[_digest(key)] = _Trial(session, token)

    def close(self, key: str) -> None:
        """Stop accepting requests for a trial. The caller must close the trial's session separately."""
        self._trials.pop(_digest(key), None)

    @property
    def routes(self) -> list[Route | WebSocketRoute]:
        """The routes to add to an application."""
        path = "/t/{trial}/{rest:path}"
        return [Route(path, _Endpoint(self._answer), methods=_METHODS), WebSocketRoute(path, _refuse_websocket)]

    def app(self) -> Starlette:
        """Return an application that serves only the gateway."""
        return Starlette(routes=self.routes)

    async def _answer(self, request: Request, send: Send) -> None:
        path = _path_of(request.path_params["rest"])
        wire = _wire_of(path, request.headers)
        try:
            trial = self._trial(request)
            if request.method == "POST":
                async with AsyncExitStack() as request.state.held:
                    await self._answer_post(request, trial, path, wire, send)
            else:
                await self._answer_get(request, trial, path, send)
        except GatewayRefusal as refusal:
            await send_refusal(send, wire, refusal)
        except ClientDisconnect:
            pass  # the client left before its request was complete

    def _trial(self, request: Request) -> _Trial:
        """Return the trial that a request belongs to. An unknown key and a wrong token get the same refusal."""
        trial = self._trials.get(_digest(request.path_params["trial"]))
        if trial is not None and trial.token is not None:
            expected = trial.token.encode()
            given = [request.headers.get(name, "") for name in _TOKEN_HEADERS]
            given += [_bearer(request.headers.get("authorization", "")), request.query_params.get("key", "")]
            is_right = [secrets.compare_digest(each.encode(), expected) for each in given]
            if not any(is_right):
                trial = None
        if trial is None:
            raise GatewayRefusal("there is no such trial at this gateway", status=404, kind="not_found")
        return trial

    async def _answer_get(self, request: Request, trial: _Trial, path: str, send: Send) -> None:
        if path == RESPONSES.path and "upgrade" in request.headers:
            body = RESPONSES.replies.error(426, "upgrade", "WebSockets are not supported; send requests over HTTP")
            await send_json(send, 426, body, _UPGRADE)
            return
        if path == "models":
            names = trial.session.routing.names
            listing = {"object": "list", "data": [_model(name) for name in names], "has_more": False}
            listing["models"] = [_gemini_model(name) for name in names]
            body = {**listing, "first_id": names[0], "last_id": names[-1]}
        elif path.startswith("models/"):
            name = path.removeprefix("models/")
            body = {**_gemini_model(name), **_model(trial.session.routing(name).name), "id": name}
        else:
            raise GatewayRefusal(f"there is nothing at {path!r}", status=404, kind="not_found")
        await send_json(send, 200, body, is_head=request.method == "HEAD")

    async def _answer_post(self, request: Request, trial: _Trial, path: str, wire: WireFormat, send: Send) -> None:
        session = trial.session
        if path == EMBEDDINGS:
            await self._embed(request, session, wire, embeddings.read, send)
            return
        gemini = _GEMINI.fullmatch(path)
        method = gemini["method"] if gemini else ""
        if gemini and method in embeddings.GEMINI_METHODS:
            reader = partial(embeddings.read_gemini, method, gemini["model"])
            await self._embed(request, session, wire, reader, send)
            return
        is_counted = path in (f"{MESSAGES.path}/count_tokens", f"{RESPONSES.path}/input_tokens")
        is_counted |= method == "countTokens"
        is_asked = path == wire.path or method in ("generateContent", "streamGenerateContent")
        if not is_asked and not is_counted:
            raise GatewayRefusal(f"there is nothing at {path!r}", status=404, kind="not_found")
        features = {name: value for name, value in request.headers.items() if name in _FEATURE_HEADERS}
        wire_request = await self._read(wire.requests.read, request, session)
        wire_request = msgspec.structs.replace(wire_request, headers=features)
        if gemini:
            is_streamed = method == "streamGenerateContent"
            if is_streamed and request.query_params.get("alt") != "sse":
                raise GatewayRefusal("streams are only served as server-sent events; add alt=sse")
            wire_request = msgspec.structs.replace(wire_request, model=gemini["model"], is_streamed=is_streamed)
        if is_counted:
            tokens = await session.routing(wire_request.model).count_tokens(wire_request)
            counted = {"object": "response.input_tokens", "input_tokens": tokens, "totalTokens": tokens}
            await send_json(send, 200, counted)
            return
        respond = partial(session.respond, wire, wire_request, request.headers.items())
        await deliver(session, respond, wire, wire_request, request.receive, send, self._patience)

    async def _embed(
        self,
        request: Request,
        session: TrialSession,
        wire: WireFormat,
        reader: Callable[[Body], WireRequest],
        send: Send,
    ) -> None:
        asked = await self._read(reader, request, session)
        await deliver(session, lambda _: session.embed(wire, asked), wire, asked, request.receive, send, self._patience)

    async def _read(
        self, reader: Callable[[Body], WireRequest], request: Request, session: TrialSession
    ) -> WireRequest:
        """Read a request. The memory of its body is held until the request is answered."""
        too_large = GatewayRefusal(
            f"the request is larger than {self._max_body_bytes:,} bytes", status=413, kind="too_large"
        )
        if request.headers.get("content-encoding", "identity") != "identity":
            raise GatewayRefusal("send the request uncompressed", status=415)
        size_bytes = int(request.headers.get("content-length") or self._max_body_bytes)
        if size_bytes > self._max_body_bytes:
            raise too_large
        trial, body = request.path_params["trial"], bytearray()
        held = await request.state.held.enter_async_context(self._memory.hold(trial, size_bytes, session.trial_clock))
        with anyio.move_on_after(_ARRIVAL_S) as arrival:
            async for piece in request.stream():
                body += piece
                if len(body) > self._max_body_bytes:
                    raise too_large
        if arrival.cancelled_caught:
            raise GatewayRefusal(f"the request did not arrive in {_ARRIVAL_S:g} s", status=408, kind="timeout")
        self._memory.shrink(held, len(body))
        asked = await beside_loop(len(body) // QUICK, read, reader, bytes(body))
        return msgspec.structs.replace(asked, size_bytes=len(body))


def read(reader: Callable[[Body], WireRequest], raw: bytes) -> WireRequest:
    body = decoded(raw)
    try:
        return reader(body)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise GatewayRefusal(f"the request has a field of a wrong type ({error})") from error


def decoded(raw: bytes) -> Body:
    """Decode a JSON object. A lone surrogate, which some clients send, is replaced."""
    if has_too_many_parts(raw):
        too_many = f"the request has more than {MOST_PARTS:,} objects and lists"
        raise GatewayRefusal(too_many, status=413, kind="too_large")
    raw = shallow_json(raw)
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        try:
            body = with_valid_text(json.loads(raw))
        except (ValueError, RecursionError) as error:
            raise GatewayRefusal(f"the request is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise GatewayRefusal("the request is not a JSON object")
    return body


class _Endpoint:
    """An ASGI application, because Starlette requires an endpoint function to return a complete response."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(Request(scope, receive), send)


async def _refuse_websocket(socket: WebSocket) -> None:
    """Refuse a WebSocket, with status 426 if the server supports it, so that clients fall back to HTTP at once."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send({"type": "websocket.http.response.start", "status": 426, "headers": _UPGRADE})
        await socket.send({"type": "websocket.http.response.body", "body": b""})
        return
    await socket.close()


def _path_of(rest: str) -> str:
    """Return the path without its version, because some clients append ``v1`` to a base URL that already has it.

    Azure's clients include the deployment name in the path; it is also in the body.
    """
    path = rest.strip("/")
    while version := _VERSIONS.match(path):
        path = path[version.end() :].lstrip("/")
    return _DEPLOYMENT.sub("", path, count=1)


def _wire_of(path: str, headers: Mapping[str, str]) -> WireFormat:
    """Return the wire for a path. For an unknown path, guess the wire whose error format the client can parse."""
    for wire in WIRES:
        if path == wire.path or path.startswith(f"{wire.path}/"):
            return wire
    if _GEMINI.fullmatch(path) or "x-goog-api-key" in headers:
        return GEMINI
    return MESSAGES if "anthropic-version" in headers else CHAT


def _model(name: str) -> dict[str, Any]:
    """Return a model entry with the fields of both OpenAI's and Anthropic's model lists."""
    created = {"created": 0, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "trial", **created}


def _gemini_model(name: str) -> dict[str, Any]:
    """Return a model entry with the fields of Gemini's model list."""
    methods = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
