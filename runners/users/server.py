"""The ``ask_user`` tool as a real MCP server: in memory for the native agent, the same one over stdio and HTTP."""

import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from recorder.values import Variant
from runners.errors import UserSimulatorError
from runners.users.protocol import UserKnowledge, UserSimulator

if TYPE_CHECKING:
    from mcp.server import MCPServer

Handler = Callable[[str, str, str | None], Awaitable[str]]
"""Answers (question, context, call id)."""

CALL_ID_KEY = "lhaw-record/callId"
_OTHER_CALL_ID_KEYS = ("callId", "toolUseId", "tool-call-request-id")

DESCRIPTION = (
    "Ask the person who gave you this task one question and get their answer. Use it when something that you need "
    "for the task is missing or unclear and cannot be found out in any other way."
)


def build_server(handler: Handler, progress_every_s: float = 10.0) -> "MCPServer[Any]":
    """Return an MCP server with the one tool ``ask_user(question, context="")``, which answers in plain text.

    Args:
        handler: Gives the answer; its UserSimulatorError becomes an error result that the client can read.
        progress_every_s: Seconds between signs of life while an answer takes long: some clients hang up after 60.
    """
    import anyio
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError

    server: MCPServer[Any] = MCPServer("lhaw-record-ask-user", log_level="WARNING")

    async def show_life(call: Context[Any, Any]) -> None:
        waited = 0
        while True:
            await anyio.sleep(progress_every_s)
            waited += 1
            await call.report_progress(waited)

    async def ask_user(question: str, context: str = "", *, call: Context[Any, Any]) -> str:
        if not question.strip():
            raise ToolError("The question is empty. Call ask_user again with one full question in 'question'.")
        failure: UserSimulatorError | None = None
        answer = ""
        async with anyio.create_task_group() as group:
            group.start_soon(show_life, call)
            try:
                answer = await handler(question, context, call_id_of(call.request_context.meta or {}))
            except UserSimulatorError as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise ToolError(f"The user cannot be reached: {failure}") from failure
        return answer

    server.add_tool(ask_user, description=DESCRIPTION, structured_output=False)
    return server


def call_id_of(meta: Mapping[str, Any]) -> str | None:
    """Return the model's tool-call id from a request's ``_meta``; clients hide it under different keys."""
    own = meta.get(CALL_ID_KEY)
    if isinstance(own, str):
        return own
    for ending in _OTHER_CALL_ID_KEYS:
        for key, value in meta.items():
            if key.endswith(ending) and isinstance(value, str):
                return value
    return None


async def serve(
    variant: Variant, full_prompt: str, simulator: UserSimulator, transport: Literal["stdio", "http"], port: int = 0
) -> None:
    """Serve the simulated user of one variant until the client leaves or the task is cancelled; nothing is recorded.

    Args:
        variant: Whose removed segments the user knows.
        full_prompt: The prompt before anything was removed.
        simulator: Answers the questions.
        transport: ``stdio``, or ``http`` on the loopback interface behind a new bearer token, shown on standard error.
        port: TCP port for ``http``; 0 takes a free one.
    """
    knowledge = UserKnowledge(full_prompt=full_prompt, sent_prompt=variant.prompt, removed=variant.segments)

    async def handler(question: str, context: str, call_id: str | None) -> str:
        return (await simulator.answer(question, context, knowledge)).text

    if transport == "stdio":
        await build_server(handler).run_stdio_async()
        return
    from runners.users.http import serve_http

    await serve_http(build_server(handler), port, secrets.token_urlsafe(32), _say)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
