"""``ask_user`` and a benchmark's own tools for external agents: one MCP server for each trial, beside its gateway.

server = AskUserServer()
async with server:
    app = Starlette(routes=[*server.routes, *gateway.routes])
    handler = RecordedUser(simulator, knowledge, stream)
    await server.open(key, token, handler, session.pending_calls, "consult")
    ...                       # if there is no answer, handler.failed is set and handler.failure says why
    await server.close(key)   # when the agent has ended; open questions are answered first
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
from starlette.responses import JSONResponse
from starlette.routing import Route

from lhaw_record.runners.agents.programs.questions import Questions
from lhaw_record.runners.agents.programs.tool_calls import OfferedTools, ToolCalls
from lhaw_record.runners.base.conversation.messages import ToolResult
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.question import Question, ToolCall, ToolOffer
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.server import TOOL_NAME, build_server
from lhaw_record.runners.users.ask_user.streamable_http import Receive, Scope, Send, StreamableHttp, has_token

PendingCalls = Callable[[], Sequence[PendingCall]]
"""Returns the main thread's actions that are being executed, like TrialSession.pending_calls."""


class AskUserServer:
    """The simulated users of all open trials in this process, each at ``/t/KEY/mcp``. Use it as a context manager.

    Args:
        progress_every_s: Seconds between progress notifications while an answer is awaited.
    """

    def __init__(self, progress_every_s: float = 10.0) -> None:
        self._progress_every_s = progress_every_s
        self._trials: dict[bytes, _Trial] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._group = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._trials.clear()
        self._group.cancel_scope.cancel()
        await self._stack.__aexit__(kind, error, trace)

    @property
    def routes(self) -> list[Route]:
        """The server's routes. They must come before the gateway's routes, which match everything below ``/t/KEY/``."""
        endpoint = _Endpoint(self)
        return [Route(path, endpoint) for path in ("/t/{trial}/mcp", "/t/{trial}/mcp/")]

    async def open(
        self,
        key: str,
        token: str | None,
        handler: RecordedUser | None,
        pending: PendingCalls,
        tool_name: str = TOOL_NAME,
        tools: OfferedTools | None = None,
    ) -> None:
        """Answer the questions of a trial, and execute the calls of its benchmark's own tools."""
        if _digest(key) in self._trials:
            raise ValueError("a trial with this key is open; use a new random key")
        trial = _Trial(token)
        await self._group.start(trial.run, handler, tools, pending, tool_name, self._progress_every_s)
        self._trials[_digest(key)] = trial

    async def close(self, key: str) -> None:
        """Stop taking calls for a trial, and return once the open questions are answered and recorded.

        Open calls of other tools are cancelled: nobody waits for their results any more. If this call is cancelled, the
        answers are abandoned. In that case, too, nothing is recorded after the return.
        """
        trial = self._trials.pop(_digest(key), None)
        if trial is not None:
            await trial.close()

    def find(self, key: str, scope: Scope) -> StreamableHttp | None:
        """Return the server for a request's trial, or None if the key is unknown or the token is wrong."""
        trial = self._trials.get(_digest(key))
        if trial is None or (trial.token is not None and not has_token(scope, trial.token)):
            return None
        return trial.endpoint


class _Trial:
    """The server of one open trial."""

    endpoint: StreamableHttp

    def __init__(self, token: str | None) -> None:
        self.token = token
        self._questions: Questions | None = None
        self._calls: ToolCalls | None = None
        self._scope = anyio.CancelScope()
        self._is_closing = anyio.Event()
        self._is_closed = anyio.Event()

    async def run(
        self,
        handler: RecordedUser | None,
        tools: OfferedTools | None,
        pending: PendingCalls,
        tool_name: str,
        progress_every_s: float,
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        """Serve until the trial is closed and every question has its answer."""
        try:
            ask = self._answer if handler is not None else None
            offer = ToolOffer(tools=tools.tools, call=self._call) if tools is not None else None
            self.endpoint = StreamableHttp(build_server(ask, tool_name, progress_every_s, offer))
            with self._scope:
                async with self.endpoint, anyio.create_task_group() as asking, anyio.create_task_group() as calling:
                    if handler is not None:
                        self._questions = Questions(handler, pending, (tool_name, TOOL_NAME), asking)
                    if tools is not None:
                        self._calls = ToolCalls(tools, pending, calling)
                    task_status.started()
                    await self._is_closing.wait()
                    for exchanges in (self._questions, self._calls):
                        if exchanges is not None:
                            exchanges.close()
                    calling.cancel_scope.cancel()
        finally:
            self._is_closed.set()

    async def close(self) -> None:
        self._is_closing.set()
        try:
            await self._is_closed.wait()
        except anyio.get_cancelled_exc_class():
            self._scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._is_closed.wait()
            raise

    async def _answer(self, asked: Question) -> str:
        assert self._questions is not None, "the server offers ask_user"
        return await self._questions.answer(asked)

    async def _call(self, call: ToolCall) -> ToolResult:
        assert self._calls is not None, "the server offers tools"
        return await self._calls.answer(call)


class _Endpoint:
    """An ASGI application, because Starlette requires an endpoint function to return a complete response."""

    def __init__(self, server: AskUserServer) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._server.find(scope["path_params"]["trial"], scope)
        if app is None:
            error = {"code": -32001, "message": "there is no such trial here"}
            body = {"jsonrpc": "2.0", "id": None, "error": error}
            await JSONResponse(body, status_code=404)(scope, receive, send)
            return
        await app(scope, receive, send)


def _digest(key: str) -> bytes:
    """Return the digest under which a trial is looked up, so that its key cannot be guessed piece by piece."""
    return hashlib.sha256(key.encode()).digest()
