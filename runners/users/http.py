"""An MCP server over streamable HTTP on the loopback interface, behind one bearer token."""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server import MCPServer

LOOPBACK = "127.0.0.1"
_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


async def serve_http(server: "MCPServer[Any]", port: int, token: str, announce: Callable[[str], None]) -> None:
    """Serve until cancelled or interrupted.

    Args:
        server: Any MCP server.
        port: TCP port; 0 takes a free one.
        token: What clients must send as ``Authorization: Bearer …``.
        announce: Gets the address and the header, one line each, once connections are queued for the server.

    Raises:
        OSError: The port is taken.
    """
    import socket

    import uvicorn

    app = guarded(server.streamable_http_app(host=LOOPBACK), token)
    listener = socket.create_server((LOOPBACK, port))
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    with listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; else each small reply takes 40 ms
        announce(f"ask_user is served at http://{LOOPBACK}:{listener.getsockname()[1]}/mcp")
        announce(f"Authorization: Bearer {token}")
        await uvicorn.Server(config).serve(sockets=[listener])


def guarded(app: _App, token: str) -> _App:
    """Return the application behind a bearer token that is compared in constant time."""
    expected = f"Bearer {token}".encode()

    async def guard(scope: _Scope, receive: _Receive, send: _Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or secrets.compare_digest(given, expected):
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]})
        await send({"type": "http.response.body", "body": b"send the bearer token that the server printed\n"})

    return guard
