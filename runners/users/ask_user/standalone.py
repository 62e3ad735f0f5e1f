"""Serves the simulated user of one variant without a trial: over stdio, or over HTTP with a bearer token."""

import secrets
import socket
from typing import TYPE_CHECKING, Any, Literal

import uvicorn
from starlette.responses import PlainTextResponse

from lhaw_record.recorder.cli.output import say
from lhaw_record.recorder.events.values import Variant
from lhaw_record.runners.base.host.serving import LOOPBACK, without_delay
from lhaw_record.runners.users.ask_user.server import build_server
from lhaw_record.runners.users.ask_user.streamable_http import StreamableHttp, has_token
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge, UserSimulator

if TYPE_CHECKING:
    from mcp.server import Server


async def serve(
    variant: Variant, full_prompt: str, simulator: UserSimulator, transport: Literal["stdio", "http"], port: int = 0
) -> None:
    """Serve the simulated user of one variant until the client leaves or the task is cancelled. Nothing is recorded."""
    knowledge = UserKnowledge(
        full_prompt=full_prompt,
        sent_prompt=variant.prompt,
        removed=variant.segments,
        expected=variant.expected_questions,
    )

    async def handler(question: Question) -> str:
        return (await simulator.answer(question.question, question.context, knowledge)).text

    server = build_server(handler)
    if transport == "http":
        await _serve_http(server, port, secrets.token_hex(32))
        return
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _serve_http(server: "Server[Any]", port: int, token: str) -> None:
    """Serve until cancelled or interrupted. Prints the address and the token once connections can be queued."""
    with without_delay(socket.create_server((LOOPBACK, port))) as listener:
        say(f"ask_user is served at http://{LOOPBACK}:{listener.getsockname()[1]}/mcp")
        say(f"Authorization: Bearer {token}")
        async with StreamableHttp(server) as endpoint:
            app = _Guarded(endpoint, token)
            config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=1)
            await uvicorn.Server(config).serve(sockets=[listener])


class _Guarded:
    """Serves the application at ``/mcp`` to requests that carry the bearer token."""

    def __init__(self, app: StreamableHttp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not has_token(scope, self._token):
            wanted = "send the bearer token that the server printed\n"
            refusal = PlainTextResponse(wanted, status_code=401, headers={"www-authenticate": "Bearer"})
            await refusal(scope, receive, send)
        elif scope["path"].rstrip("/") != "/mcp":
            await PlainTextResponse("it is served at /mcp\n", status_code=404)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
