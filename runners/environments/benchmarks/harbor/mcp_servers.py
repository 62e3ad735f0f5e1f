"""The MCP servers of a task, which run in its services: agents get their tools besides the container's.

We query a server from our own container in the agent's network. So a call is an action of the
trial for every kind of agent, and the agent needs no client.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lhaw_record.runners.environments.benchmarks.harbor.task_folder import McpServerTable
from lhaw_record.runners.environments.benchmarks.mcp_lines import (
    ServerForms,
    definition_of,
    open_client,
    shortened,
    shown_result,
    translated,
)
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, EnvironmentSettings, Keep, ToolResult
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.sidecar import RELAY_LIMITS, LineChannel, open_python
from lhaw_record.runners.environments.sandboxes.driver_program import source_of
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.users.ask_user import bridge

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

SERVER_MB = RELAY_LIMITS.memory_mb
"""The memory of the container through which one server is asked, in MiB."""
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARACTERS = 64  # OpenAI's and Gemini's limit; Anthropic allows 128
_OURS = ("ask_user", "submit")


class McpServers:
    """The open servers of one trial.

    Args:
        servers: The servers by name.
        taken: Names that tools of the container have.
        limits: ``command_seconds`` bounds a call, ``tool_result_kb`` or ``output_bytes`` what the agent reads of it.
        keep: Stores what no agent can be shown.
    """

    def __init__(
        self,
        servers: Mapping[str, "_Server"],
        taken: Sequence[str],
        limits: SandboxLimits,
        keep: Keep,
    ) -> None:
        self._limits, self._keep = limits, keep
        found = [(name, tool) for name, server in servers.items() for tool in server.tools]
        shown = names_for_models([(name, tool.name) for name, tool in found], taken)
        self._owners = {each: (servers[name], tool.name) for each, (name, tool) in zip(shown, found, strict=True)}
        self.tools = tuple(definition_of(tool, each) for each, (_, tool) in zip(shown, found, strict=True))

    def has(self, name: str) -> bool:
        """Return whether a tool is one of the servers'."""
        return name in self._owners

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call one of ``tools``. A server that refuses the call, or gives no answer in time, is an error result."""
        from mcp import MCPError

        server, own = self._owners[name]
        what = f"the MCP server {server.name} of the task"
        with server.forms.call(self._limits.command_seconds), translated(server.channel, what):
            try:
                result = await server.client.call_tool(own, arguments)
            except MCPError as error:
                if server.channel.end is not None:
                    raise
                return ToolResult(text=str(error), is_error=True)
            text, unshown = shown_result(result, own)
            for artifact in unshown:
                await self._keep(artifact)
            most_bytes = self._limits.result_bytes(self._limits.output_bytes)
            return ToolResult(text=shortened(text, most_bytes), is_error=bool(result.is_error))
        seconds = self._limits.command_seconds
        text = f"[{server.name} gave no answer within {seconds:g} s]"
        return ToolResult(text=text, is_error=True, limit_met="command_seconds")


def names_for_models(tools: Sequence[tuple[str, str]], taken: Sequence[str]) -> list[str]:
    """Return names of tools that every provider accepts: distinct, 1 to 64 of ``A-Za-z0-9_-``, no digit or ``-`` first.

    A tool keeps its name if no other has it, else that of its server comes before it, and a number after the second.
    The names do not depend on the order in which a server lists its tools.
    """
    counts = Counter([*taken, *_OURS, *(_accepted(tool) for _, tool in tools)])
    alone = {name for name, count in counts.items() if count == 1}
    used = {*taken, *_OURS, *alone}
    names: dict[int, str] = {}
    for index in sorted(range(len(tools)), key=lambda index: tools[index]):
        server, tool = tools[index]
        name = _accepted(tool)
        if name not in alone:
            first = name = _accepted(f"{server}_{tool}")
            number = 1
            while name in used:
                number += 1
                name = f"{first[: _NAME_CHARACTERS - len(f'_{number}')]}_{number}"
            used.add(name)
        names[index] = name
    return [names[index] for index in range(len(tools))]


def _accepted(name: str) -> str:
    """Return a name with other characters replaced. Gemini allows no digit or ``-`` at its beginning."""
    name = _FORBIDDEN.sub("_", name) or "_"
    return (name if name[0].isalpha() or name[0] == "_" else f"_{name}")[:_NAME_CHARACTERS]


@dataclass(eq=False)
class _Server:
    """One open server: its client, and the streams behind it."""

    name: str
    client: "Client"
    forms: ServerForms
    channel: LineChannel
    tools: Sequence["Tool"]
    refused_tools: Mapping[str, str]


@asynccontextmanager
async def open_servers(
    servers: Sequence[McpServerTable],
    image: str,
    room: MemoryBudget,
    beside: DockerMachine,
    taken: Sequence[str],
    settings: EnvironmentSettings,
) -> AsyncIterator[McpServers]:
    """Connect to the servers of a task. Tools that no model can have are left out, and that is stored."""
    async with AsyncExitStack() as stack:
        limits, opened = settings.limits, dict[str, _Server]()
        for each in servers:
            opened[each.name] = await stack.enter_async_context(_opened(each, image, room, beside, settings))
        if refused := {name: server.refused_tools for name, server in opened.items() if server.refused_tools}:
            await settings.keep(Artifact.of_json("mcp_servers.json", "environment", {"refused_tools": refused}))
        yield McpServers(opened, taken, limits, settings.keep)


@asynccontextmanager
async def _opened(
    table: McpServerTable, image: str, room: MemoryBudget, beside: DockerMachine, settings: EnvironmentSettings
) -> AsyncIterator[_Server]:
    assert table.url is not None
    arguments = (table.url, "", "1")  # a call is sent once: it may change something
    name = f"the MCP server {table.name} of the task at {table.url}"
    forms = ServerForms(settings.fill_in)
    async with (
        open_python(source_of(bridge), arguments, image, room, beside) as channel,
        open_client(channel, name, settings.limits, forms) as (client, tools, refused),
    ):
        yield _Server(table.name, client, forms, channel, tools, refused)
