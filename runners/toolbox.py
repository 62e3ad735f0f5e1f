"""The tools of one trial: those of its environment and, where the condition has it, ``ask_user`` over MCP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from recorder.errors import RecorderError
from runners.benchmarks.protocol import Environment, ToolResult
from runners.conversation import ToolDefinition
from runners.errors import BoundaryError, ToolBoundaryError
from runners.recording import Recording
from runners.users.asking import AskUser
from runners.users.client import AskUserClient
from runners.users.protocol import UserKnowledge, UserSimulator


class TrialToolbox:
    """Sends a call to the environment or to the simulated user."""

    def __init__(self, environment: Environment, user: AskUserClient | None) -> None:
        self._environment = environment
        self._user = user
        self.tools: tuple[ToolDefinition, ...] = (*environment.tools, *((user.tool,) if user else ()))
        self._names = {tool.name for tool in self.tools}

    async def call(self, name: str, arguments: dict[str, Any], call_id: str | None) -> ToolResult:
        """Execute a tool; an unknown name is an error result that lists the tools there are.

        Raises:
            BoundaryError: A tool's machinery, the sandbox or the user simulator failed.
        """
        if name not in self._names:
            return ToolResult(
                text=f"There is no tool {name!r}. Tools: {', '.join(sorted(self._names))}.", is_error=True
            )
        if self._user is not None and name == self._user.tool.name:
            return await self._user.ask(arguments, call_id)
        try:
            return await self._environment.call(name, arguments)
        except (BoundaryError, RecorderError):
            raise
        except Exception as error:
            raise ToolBoundaryError(f"tool {name} broke: {type(error).__name__}: {error}", kind="crash") from error


@asynccontextmanager
async def open_toolbox(
    asking: tuple[UserSimulator, UserKnowledge] | None,
    environment: Environment,
    recording: Recording,
    current_action: Callable[[], int],
) -> AsyncIterator[TrialToolbox]:
    """Open the tools of one trial; a simulated user is served over MCP as long as it is open."""
    if asking is None:
        yield TrialToolbox(environment, None)
        return
    simulator, knowledge = asking
    handler = AskUser(simulator, knowledge, recording)
    async with AskUserClient(handler, current_action) as user:
        yield TrialToolbox(environment, user)
