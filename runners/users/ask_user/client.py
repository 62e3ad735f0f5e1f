"""The native agent's client for ``ask_user``, which talks to the real MCP server in memory."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, cast

from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult
from lhaw_record.runners.base.errors import UserSimulatorError
from lhaw_record.runners.users.ask_user.question import Question
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.server import CALL_ID_KEY, build_server


class AskUserClient:
    """Asks the simulated user of one trial over MCP.

    ``tool`` is the definition listed by the server. It is available while the client is open.

    Args:
        handler: Answers and records the questions. If it fails, the trial ends.
        current_action: Returns the number of the action that is being executed, counted from 1.
    """

    tool: ToolDefinition

    def __init__(self, handler: RecordedUser, current_action: Callable[[], int]) -> None:
        self._handler = handler
        self._current_action = current_action
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        from mcp import Client

        self._client = await self._stack.enter_async_context(Client(build_server(self._answer)))
        (listed,) = (await self._client.list_tools()).tools
        self.tool = ToolDefinition(
            name=listed.name, description=listed.description or "", input_schema=listed.input_schema
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def ask(self, arguments: dict[str, Any], call_id: str | None) -> ToolResult:
        """Call the tool with the arguments that the model gave. Invalid arguments give an error result."""
        from mcp import MCPError
        from mcp.types import RequestParamsMeta, TextContent

        meta = cast("RequestParamsMeta", {CALL_ID_KEY: call_id}) if call_id else None
        try:
            result = await self._client.call_tool(self.tool.name, arguments, meta=meta)
        except MCPError as error:
            raise UserSimulatorError(f"the ask_user server failed: {error}", kind="server_error") from error
        if self._handler.failure is not None:
            raise self._handler.failure
        texts = [part.text for part in result.content if isinstance(part, TextContent)]
        return ToolResult(text="\n".join(texts), is_error=bool(result.is_error), server="lhaw-record-ask-user")

    async def _answer(self, asked: Question) -> str:
        return await self._handler(asked.question, asked.context, asked.call_id, self._current_action())
