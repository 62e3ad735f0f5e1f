"""The gateway over HTTP: one address for each trial, on which three protocols are spoken.

The key in the path is the secret: whoever knows it is the trial's agent. A trial may ask for a token beside it, as a
bearer token or as ``x-api-key``. Trials are looked up by a digest of their key, and tokens are compared in constant
time, so that neither can be guessed piece by piece.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from runners.gateway.delivery import Patience, deliver, send_json, send_refusal
from runners.gateway.errors import Refusal
from runners.gateway.session import TrialSession
from runners.gateway.wires import CHAT, MESSAGES, RESPONSES, WIRES
from runners.gateway.wires.protocol import Body, Wire, WireRequest

_METHODS = ["GET", "HEAD", "POST"]  # Starlette answers the others with 405
_FEATURE_HEADERS = frozenset({"anthropic-beta", "openai-beta"})
_UPGRADE = [(b"upgrade", b"HTTP/1.1"), (b"connection", b"Upgrade")]


class _Trial(msgspec.Struct, frozen=True):
    session: TrialSession
    token: str | None


class Gateway:
    """The open trials of one process.

    Args:
        max_body_bytes: Larger requests are refused.
        patience: How long to wait for models and readers.
    """

    def __init__(self, *, max_body_bytes: int = 64 << 20, patience: Patience | None = None) -> None:
        self._max_body_bytes = max_body_bytes
        self._patience = patience or Patience()
        self._trials: dict[bytes, _Trial] = {}

    def open(self, key: str, session: TrialSession, token: str | None = None) -> None:
        """Take requests for a trial at ``/t/KEY``; the key must be long and random, and fit into a path.

        Raises:
            ValueError: The key is taken.
        """
        if _digest(key) in self._trials:
            raise ValueError("a trial with this key is open; use a new random key")
        self._trials[_digest(key)] = _Trial(session, token)

    def close(self, key: str) -> None:
        """Take no more requests for a trial; its session is closed apart."""
        self._trials.pop(_digest(key), None)

    @property
    def routes(self) -> list[Route | WebSocketRoute]:
        """What the gateway adds to an application."""
        path = "/t/{trial}/{rest:path}"
        return [Route(path, _Endpoint(self._answer), methods=_METHODS), WebSocketRoute(path, _refuse_websocket)]

    def app(self) -> Starlette:
        """Return an application of the gateway alone."""
        return Starlette(routes=self.routes)

    async def _answer(self, request: Request, send: Send) -> None:
        path = _path_of(request.path_params["rest"])
        wire = _wire_of(path, request.headers)
        try:
            trial = self._trial(request)
            if request.method == "POST":
                await self._answer_post(request, trial, path, wire, send)
            else:
                await self._answer_get(request, trial, path, send)
        except Refusal as refusal:
            await send_refusal(send, wire, refusal)
        except ClientDisconnect:
            pass  # it left before it had said everything

    def _trial(self, request: Request) -> _Trial:
        """The trial that a request belongs to; an unknown key and a wrong token look alike."""
        trial = self._trials.get(_digest(request.path_params["trial"]))
        if trial is not None and trial.token is not None:
            expected = trial.token.encode()
            given = [request.headers.get("x-api-key", ""), _bearer(request.headers.get("authorization", ""))]
            is_right = [secrets.compare_digest(each.encode(), expected) for each in given]
            if not any(is_right):
                trial = None
        if trial is None:
            raise Refusal("there is no such trial at this gateway", status=404, kind="not_found")
        return trial

    async def _answer_get(self, request: Request, trial: _Trial, path: str, send: Send) -> None:
        if path == RESPONSES.path and "upgrade" in request.headers:
            body = RESPONSES.replies.error(426, "upgrade", "WebSockets are not spoken here; send requests over HTTP")
            await send_json(send, 426, body, _UPGRADE)
            return
        model = _model(trial.session.upstream.name)
        if path == "models":
            listing = {"object": "list", "data": [model], "has_more": False}
            body = {**listing, "first_id": model["id"], "last_id": model["id"]}
        elif path.startswith("models/"):
            body = {**model, "id": path.removeprefix("models/")}
        else:
            raise Refusal(f"nothing is found at {path!r}", status=404, kind="not_found")
        await send_json(send, 200, body, is_head=request.method == "HEAD")

    async def _answer_post(self, request: Request, trial: _Trial, path: str, wire: Wire, send: Send) -> None:
        is_counted = path in (f"{MESSAGES.path}/count_tokens", f"{RESPONSES.path}/input_tokens")
        if path != wire.path and not is_counted:
            raise Refusal(f"nothing is found at {path!r}", status=404, kind="not_found")
        features = {name: value for name, value in request.headers.items() if name in _FEATURE_HEADERS}
        wire_request = msgspec.structs.replace(read(wire, await self._body(request)), headers=features)
        if is_counted:
            tokens = await trial.session.upstream.count_tokens(wire_request)
            await send_json(send, 200, {"object": "response.input_tokens", "input_tokens": tokens})
            return
        headers = request.headers.items()
        await deliver(trial.session, wire, wire_request, headers, request.receive, send, self._patience)

    async def _body(self, request: Request) -> bytes:
        """The body of a request, within the limit.

        Raises:
            Refusal: It is larger, or compressed.
        """
        too_large = Refusal(f"the request is larger than {self._max_body_bytes:,} bytes", status=413, kind="too_large")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refusal("send the request uncompressed", status=415)
        if int(request.headers.get("content-length") or 0) > self._max_body_bytes:
            raise too_large
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._max_body_bytes:
                raise too_large
        return bytes(body)


def read(wire: Wire, raw: bytes) -> WireRequest:
    """Read the bytes of a request.

    Raises:
        Refusal: They are no JSON object, or no request of the wire.
    """
    body = decoded(raw)
    try:
        return wire.requests.read(body)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise Refusal(f"the request has a field of a wrong type ({error})") from error


def decoded(raw: bytes) -> Body:
    """Return the JSON object in the bytes; half a surrogate pair, which clients cut off, becomes a question mark.

    Raises:
        Refusal: They hold none.
    """
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        try:
            body = _without_surrogates(json.loads(raw))
        except (ValueError, RecursionError) as error:
            raise Refusal(f"the request is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal("the request is no JSON object")
    return body


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    return value


class _Endpoint:
    """An ASGI application, because a Starlette endpoint that is a function must return its response whole."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(Request(scope, receive), send)


async def _refuse_websocket(socket: WebSocket) -> None:
    """Refuse with 426 where the server can, so that clients fall back to HTTP at once."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send({"type": "websocket.http.response.start", "status": 426, "headers": _UPGRADE})
        await socket.send({"type": "websocket.http.response.body", "body": b""})
        return
    await socket.close()


def _path_of(rest: str) -> str:
    """The address without the version: some clients add ``v1`` to a base URL that has it already."""
    path = rest.strip("/")
    while path == "v1" or path.startswith("v1/"):
        path = path[2:].lstrip("/")
    return path


def _wire_of(path: str, headers: Mapping[str, str]) -> Wire:
    """The wire of an address; for an unknown one that which errors are most likely read in."""
    for wire in WIRES:
        if path == wire.path or path.startswith(f"{wire.path}/"):
            return wire
    return MESSAGES if "anthropic-version" in headers else CHAT


def _model(name: str) -> dict[str, Any]:
    """A model as OpenAI and as Anthropic list one."""
    created = {"created": 0, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "trial", **created}


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
