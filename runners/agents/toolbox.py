"""The tools of one trial: those of its environment and, if the condition includes it, ``ask_user`` over MCP."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult
from lhaw_record.runners.base.errors import BoundaryError, GraderError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.protocol import Environment
from lhaw_record.runners.users.ask_user.recorded_user import AskUserTool, question_of_command


class TrialToolbox:
    """Routes each tool call to the environment or to the simulated user.

    Args:
        environment: The environment with its tools. Time in tools that are servers counts as waiting, other time as the
            agent's own.
        user: The tool that asks the simulated user. None if the condition has none.
        trial_clock: Measures the waiting time.
        own_tools: The tools of the environment, if not all.
    """

    def __init__(
        self,
        environment: Environment,
        user: AskUserTool | None,
        trial_clock: TrialClock | None = None,
        own_tools: Sequence[ToolDefinition] | None = None,
    ) -> None:
        self._environment = environment
        self._user = user
        self._trial_clock = trial_clock or TrialClock()
        self.tools: tuple[ToolDefinition, ...] = (
            *(environment.tools if own_tools is None else own_tools),
            *((user.tool,) if user else ()),
        )
        self.call_id: str | None = None
        """The id of the call that was begun last."""
        self._names = {tool.name for tool in self.tools}

    async def call(self, name: str, arguments: dict[str, Any], call_id: str | None) -> ToolResult:
        """Execute a tool. For an unknown name, return an error result that lists the tools."""
        if name not in self._names:
            return ToolResult(
                text=f"There is no tool {name!r}. Tools: {', '.join(sorted(self._names))}.", is_error=True
            )
        if self._user is not None and name == self._user.tool.name:
            return await self._user.ask(arguments, call_id)
        self.call_id = call_id or None
        program = self._environment.ask_command
        if self._user is not None and program and (question := question_of_command(arguments.get("command"), program)):
            return await self._user.ask({"question": question}, call_id, "command")
        try:
            with self._on_the_clock(name):
                return await self._environment.call(name, arguments)
        except (BoundaryError, RecorderError):
            raise
        except Exception as error:
            raise ToolBoundaryError(f"tool {name} failed: {type(error).__name__}: {error}", kind="crash") from error

    async def next_step(self) -> str | None:
        """Return the next request of a task of several steps, or None. The time is not the agent's."""
        with self._trial_clock.waiting("grader", "the grading of a step", is_exempt=True):
            try:
                return await self._environment.next_step()
            except (BoundaryError, RecorderError):
                raise
            except Exception as error:
                message = f"the grader of a step crashed: {type(error).__name__}: {error}"
                raise GraderError(message, kind="crash") from error

    def _on_the_clock(self, name: str) -> AbstractContextManager[None]:
        if not self._environment.tools_are_servers:
            return nullcontext()
        return self._trial_clock.waiting("tool", f"the server of tool {name}")
