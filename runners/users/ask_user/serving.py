"""Serves ``ask_user`` over HTTP for the programs of a run.

server = AskUserServer()
async with server:
    app = Starlette(routes=[*server.routes, *gateway.routes])
    handler = RecordedUser(simulator, knowledge, stream)
    await server.open(key, token, handler, session.pending_calls, "consult")
    ...                       # if there is no answer, handler.failed is set and handler.failure says why
    await server.close(key)   # when the agent has ended; open questions are answered first
"""

import hashlib
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lhaw_record.runners.users.ask_user.calls import OfferedTools, PendingCalls, Questions, ToolCalls
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.server import TOOL_NAME, ToolOffer, build_server
from lhaw_record.runners.users.ask_user.streamable_http import StreamableHttp, has_token


class AskUserServer:
    """The simulated users of all open trials in this process, each at ``/t/KEY/mcp``. Use it as a context manager.

    Args:
        progress_every_s: Seconds between progress notifications while an answer is pending.
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
        """The server's routes, to be placed before the gateway's, which match everything below ``/t/KEY/``."""
        return [Route(path, self) for path in ("/t/{trial}/mcp", "/t/{trial}/mcp/")]

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
        if key_digest(key) in self._trials:
            raise ValueError("a trial with this key is open; use a new random key")
        trial = _Trial(token)
        await self._group.start(trial.run, handler, tools, pending, tool_name, self._progress_every_s)
        self._trials[key_digest(key)] = trial

    async def close(self, key: str) -> None:
        """Stop accepting calls for a trial, and return once the open questions are answered and recorded.

        Open calls of other tools are cancelled, because their results are no longer needed. If this call is cancelled,
        the answers are abandoned. In either case, nothing is recorded after the return.
        """
        trial = self._trials.pop(key_digest(key), None)
        if trial is not None:
            await trial.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a trial. An unknown key and a wrong token look the same to the client."""
        trial = self._trials.get(key_digest(scope["path_params"]["trial"]))
        if trial is None or (trial.token is not None and not has_token(scope, trial.token)):
            error = {"code": -32001, "message": "there is no such trial here"}
            body = {"jsonrpc": "2.0", "id": None, "error": error}
            await JSONResponse(body, status_code=404)(scope, receive, send)
            return
        await trial.endpoint(scope, receive, send)


class _Trial:
    """The server of one open trial."""

    endpoint: StreamableHttp

    def __init__(self, token: str | None) -> None:
        self.token = token
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
            questions = Questions(handler, pending, (tool_name, TOOL_NAME)) if handler is not None else None
            calls = ToolCalls(tools, pending) if tools is not None else None
            offer = ToolOffer(tools=tools.tools, call=calls.answer) if tools is not None and calls is not None else None
            ask = questions.answer if questions is not None else None
            self.endpoint = StreamableHttp(build_server(ask, tool_name, progress_every_s, offer))
            with self._scope:
                async with self.endpoint, anyio.create_task_group() as asking, anyio.create_task_group() as calling:
                    for exchanges, group in ((questions, asking), (calls, calling)):
                        if exchanges is not None:
                            exchanges.group = group
                    task_status.started()
                    await self._is_closing.wait()
                    for exchanges in (questions, calls):
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


def key_digest(key: str) -> bytes:
    """Return the digest by which a trial is looked up, so that its key cannot be guessed piece by piece."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
