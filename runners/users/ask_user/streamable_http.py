"""An MCP server over streamable HTTP for all clients: with or without a session, streams or JSON, single or batched.

Each session manager in the MCP library serves one kind of client. This application passes each request to the right
manager and returns the answer in a form that the client reads. It also notes whether the answer arrived, so that a
repeated question can be recognised.
"""

import secrets
from collections.abc import MutableMapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from lhaw_record.runners.users.ask_user.server import DELIVERY_KEY, AnswerDelivery

if TYPE_CHECKING:
    from mcp.server import Server

SESSION_HEADER = "mcp-session-id"
_MAX_BODY_BYTES = 4 << 20
_MAX_BATCH = 100
_STREAM = "text/event-stream"
_REPLY_KEYS = (b'"result":', b'"error":')


class StreamableHttp:
    """An ASGI application for an MCP server. It works only while it is entered as a context manager."""

    def __init__(self, server: "Server[Any]") -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager as Manager
        from mcp.server.transport_security import TransportSecuritySettings

        # A token protects the server, and clients in containers know this host by other names.
        any_host = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._sessions = Manager(app=server, security_settings=any_host)
        self._single = Manager(app=server, security_settings=any_host, stateless=True)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for manager in (self._sessions, self._single):
            await self._stack.enter_async_context(manager.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        headers = Headers(scope=scope)
        has_session = SESSION_HEADER in headers
        if scope["method"] != "POST":
            if has_session:
                await self._sessions.handle_request(scope, receive, send)
            else:  # the client would wait forever on an empty stream
                await Response(status_code=405, headers={"allow": "POST"})(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            await Response("the request is too large", status_code=413)(scope, receive, send)
            return
        delivery = AnswerDelivery()
        receive, send = _watched(delivery, receive, send)
        to_one = _readable({**scope, DELIVERY_KEY: delivery})
        reads_streams = any(kind in headers.get("accept", "") for kind in (_STREAM, "text/*"))
        try:
            message = _decoded(body)
            if isinstance(message, list):
                await self._answer_batch(message, to_one, receive, send, has_session=has_session)
            elif reads_streams:
                await self._answer(message, to_one, _replayed(body, receive), send, has_session=has_session)
            else:
                answer = _Answer()
                await self._answer(message, to_one, _replayed(body, receive), answer.send, has_session=has_session)
                await answer.as_json()(scope, receive, send)
        finally:
            delivery.end("lost")

    async def _answer(self, message: Any, scope: Scope, receive: Receive, send: Send, *, has_session: bool) -> None:
        """Answer one message, in the client's session if the client has one or is opening one."""
        is_opening = isinstance(message, dict) and message.get("method") == "initialize"
        manager = self._sessions if has_session or is_opening else self._single
        await manager.handle_request(scope, receive, send)

    async def _answer_batch(
        self, messages: list[Any], scope: Scope, receive: Receive, send: Send, *, has_session: bool
    ) -> None:
        """Answer several messages sent in one batch, as protocol version 2025-03-26 allows."""
        if not 0 < len(messages) <= _MAX_BATCH:
            await Response(f"send 1 to {_MAX_BATCH} messages at a time", status_code=400)(scope, receive, send)
            return
        replies = []
        for message in messages:
            answer = _Answer()
            incoming = _replayed(msgspec.json.encode(message), receive)
            await self._answer(message, scope, incoming, answer.send, has_session=has_session)
            replies.append(answer.as_json())
        bodies = [msgspec.Raw(reply.body) for reply in replies if reply.body]
        joined = Response(
            msgspec.json.encode(bodies) if bodies else b"",
            status_code=200 if bodies else 202,
            media_type="application/json" if bodies else None,
        )
        await joined(scope, receive, send)


def has_token(scope: Scope, token: str) -> bool:
    """Return whether a request carries the bearer token, comparing in constant time."""
    scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
    is_bearer = scheme.lower() == "bearer"
    return secrets.compare_digest(given.strip().encode(), token.encode()) and is_bearer


class _Answer:
    """Collects a response instead of sending it."""

    def __init__(self) -> None:
        self._status = 500
        self._headers = Headers()
        self._body = bytearray()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = Headers(raw=message.get("headers", []))
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")

    def as_json(self) -> Response:
        """Return the answer as JSON, keeping only the reply from the stream's messages."""
        kept = {name: value for name, value in self._headers.items() if name == SESSION_HEADER}
        if not self._headers.get("content-type", "").startswith(_STREAM):
            kind = self._headers.get("content-type")
            return Response(bytes(self._body), status_code=self._status, headers=kept, media_type=kind)
        data = [line[5:] for line in bytes(self._body).splitlines() if line.startswith(b"data:")]
        messages = [msgspec.json.decode(each) for each in data if each.strip()]
        reply = next((message for message in messages if "result" in message or "error" in message), None)
        if reply is None:
            error = {"code": -32603, "message": "the session ended before the answer"}
            return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=500, headers=kept)
        return JSONResponse(reply, status_code=self._status, headers=kept)


def _readable(scope: Scope) -> Scope:
    """Return the scope with an Accept header that allows both JSON and streams.

    For a client that does not read streams, the caller must convert the answer.
    """
    headers = MutableHeaders(raw=list(scope["headers"]))
    headers["accept"] = f"application/json, {_STREAM}"
    return {**scope, "headers": headers.raw}


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MAX_BODY_BYTES:
            return None
        if message["type"] != "http.request" or not message.get("more_body"):
            return bytes(body)


def _decoded(body: bytes) -> Any:
    """Decode a JSON body, or return None for invalid JSON, to which the library replies with its own error."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a receive channel that first replays a body that was already read."""
    bodies = [body]

    async def replay() -> MutableMapping[str, Any]:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return await receive()

    return replay


def _watched(delivery: AnswerDelivery, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Wrap the channels of a request so that they record its delivery."""

    async def hear() -> MutableMapping[str, Any]:
        message = await receive()
        if message["type"] == "http.disconnect":
            delivery.end("lost")
        return message

    async def say(message: MutableMapping[str, Any]) -> None:
        await send(message)
        body = message.get("body", b"")
        if any(key in body for key in _REPLY_KEYS):  # some clients close the connection before the end of the stream
            delivery.end("done")

    return hear, say
