"""Executes a benchmark's own tools for a program: each call once, measured, and joined to the action that it is."""

import time
from collections.abc import Callable, Collection, Hashable, Sequence

import anyio
import anyio.abc

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.agents.programs.exchanges import Exchanges
from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.conversation.messages import Toolbox, ToolResult
from lhaw_record.runners.base.errors import BoundaryError, ToolBoundaryError
from lhaw_record.runners.models.gateway.calls import PendingCall

Executed = Callable[[int, ToolResult, float], None]
"""Is told what executing an action gave: its number, its result, and the milliseconds that it took."""


class OfferedTools:
    """The tools that a program gets over MCP in one trial.

    The MCP server does not pass exceptions on, so the first one is kept in ``failure`` for the trial, and the event
    ``failed`` is set.

    Args:
        toolbox: Executes the tools.
        executed: Is told of every action that is a call of one of the tools.
    """

    def __init__(self, toolbox: Toolbox, executed: Executed) -> None:
        self.tools = toolbox.tools
        self.failure: Exception | None = None
        self.failed = anyio.Event()
        self._toolbox = toolbox
        self._executed = executed

    async def __call__(self, call: ToolCall, call_id: str | None, action_index: int | None) -> ToolResult:
        """Execute a call."""
        began_s = time.monotonic()
        try:
            result = await self._toolbox.call(call.name, call.arguments, call_id)
        except (BoundaryError, RecorderError) as error:
            self.failure = self.failure or error
            self.failed.set()
            raise
        if action_index is not None:
            self._executed(action_index, result, round((time.monotonic() - began_s) * 1000, 3))
        return result


class ToolCalls(Exchanges[ToolCall, ToolResult]):
    """Executes the calls of one trial.

    Args:
        offered: Executes the tools.
        pending: Returns the main thread's actions that are being executed, as far as the gateway knows.
        group: The task group that runs the calls.
    """

    def __init__(
        self, offered: OfferedTools, pending: Callable[[], Sequence[PendingCall]], group: anyio.abc.TaskGroup
    ) -> None:
        super().__init__(pending, group)
        self._offered = offered
        self._names = [tool.name for tool in offered.tools]

    def words(self, asked: ToolCall) -> Hashable:
        """Return the name of the tool, and its arguments."""
        return asked.name, canonical_json(asked.arguments)

    def matching(self, asked: ToolCall, pending: Sequence[PendingCall]) -> list[PendingCall]:
        """Return the pending calls of the tool: with the call's id if it has one, otherwise with its arguments."""
        if asked.call_id is not None:
            return [call for call in pending if call.call_id == asked.call_id]
        return [call for call in pending if self._words_of(call) == self.words(asked)]

    def enclosing(self, asked: ToolCall, pending: Sequence[PendingCall], taken: Collection[str]) -> int | None:
        """Return None: what a sub-agent or a script calls is part of an action that has a result of its own."""
        del asked, pending, taken
        return None

    async def carry_out(self, asked: ToolCall, call_id: str | None, action_index: int | None) -> ToolResult:
        """Return the tool's result."""
        return await self._offered(asked, call_id, action_index)

    def over(self) -> Exception:
        """Return that the trial is over."""
        return ToolBoundaryError("the trial is over", kind="trial_over", is_retry_owed=False)

    def _words_of(self, call: PendingCall) -> Hashable:
        """Return the words of a pending call. The model may see a tool's name with a prefix, such as a server's."""
        name = max((name for name in self._names if call.name.endswith(name)), key=len, default="")
        return name, canonical_json(decoded_arguments(call.arguments_json) or {})
