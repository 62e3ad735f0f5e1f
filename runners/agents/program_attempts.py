"""Where a program works in a trial, with which tools of the benchmark, and how the environment learns of its calls."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from lhaw_record.recorder.events import ActionFinished, ActionStarted, AnyEvent
from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.errors import SandboxUnfit
from lhaw_record.runners.environments.benchmarks.protocol import Environment, EnvironmentSettings, ToolDefinition
from lhaw_record.runners.environments.sandboxes.protocol import ProgramSandbox
from lhaw_record.runners.experiment.program import ProgramSpec


@asynccontextmanager
async def program_sandbox(
    benchmark: str, environment: Environment, settings: EnvironmentSettings, program: ProgramSpec
) -> AsyncIterator[tuple[ProgramSandbox, tuple[ToolDefinition, ...]]]:
    """Yield where a program works, and the tools that it gets over MCP.

    That is the environment's own sandbox, or an empty one of the experiment, where the program gets all tools.
    """
    async with AsyncExitStack() as stack:
        sandbox: ProgramSandbox
        if environment.sandbox is not None:
            sandbox, tools = environment.sandbox, environment.program_tools
        else:
            opened = settings.sandbox.open(None, settings.limits, settings.access)
            sandbox, tools = await stack.enter_async_context(opened), environment.tools
        if not sandbox.listener_url:
            raise SandboxUnfit(
                f"an environment of {benchmark} has a 'sandbox' that was not opened with settings.access; "
                f"docs/own-tasks.md shows how",
                kind="no_sandbox_for_programs",
            )
        if tools and not program.takes_mcp:
            raise SandboxUnfit(
                f"{benchmark} offers its tools over MCP, but {program.title} uses none "
                f'(its entry says asks_by = "{program.asks_by}")',
                kind="program_without_mcp",
            )
        yield sandbox, tools


class ToolCallNotes:
    """Passes the tool calls of a program on to its environment, once they are durable.

    Args:
        environment: Is told of the calls.
        ask_user_tool: The name of the tool that asks the user, whose calls are not the environment's.
    """

    def __init__(self, environment: Environment, ask_user_tool: str) -> None:
        self._environment = environment
        self._ask_user_tool = ask_user_tool
        self._started: dict[int, ActionStarted] = {}

    def observe(self, event: AnyEvent) -> None:
        """Pass a call on with its result."""
        if isinstance(event, ActionStarted):
            if event.kind == "tool" and not event.name.endswith(self._ask_user_tool):
                self._started[event.action_index] = event
        elif isinstance(event, ActionFinished) and (start := self._started.pop(event.action_index, None)):
            arguments = decoded_arguments(start.arguments_json) or {}
            self._environment.program_did(start.name, arguments, event.result or "")
