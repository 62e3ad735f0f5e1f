"""Connect to one MCP server of an environment, call its tools and end it, with a time limit on every wait."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskStatus

from lhaw_record.runners.base.errors import ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import ProcessPlan
from lhaw_record.runners.environments.benchmarks.mcp_atlas.transport import ServerProcess
from lhaw_record.runners.environments.benchmarks.mcp_lines import (
    LineTransport,
    ServerForms,
    all_tools,
    one_line,
    shown_result,
)
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, FillIn
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A server to start: its name in records, its process, its limits, and MCP's version if that has no handshake."""

    name: str
    process: ProcessPlan
    limits: SandboxLimits = SandboxLimits()
    fill_in: FillIn | None = None
    protocol: str = ""


class ServerAnswer(msgspec.Struct, frozen=True):
    """A tool result: its text, whether the tool reported an error, and what no agent can be shown of it."""

    text: str
    is_error: bool
    unshown: tuple[Artifact, ...] = ()


class RunningServer:
    """A connected server. Its session runs in a separate task, so the end of the session never cancels the caller."""

    def __init__(self, plan: ServerPlan) -> None:
        self.name = plan.name
        self.tools: tuple[Tool, ...] = ()
        self.info: dict[str, str] = {}
        self._plan = plan
        self._process = ServerProcess(plan.process, plan.limits.tool_message_mb << 20)
        self._transport = LineTransport(self._process)
        self._forms = ServerForms(plan.fill_in)
        self._client: Client | None = None
        self._failure: BaseException | None = None

    @property
    def pid(self) -> int | None:
        """The id of the server's process. Ending this process ends the server."""
        return self._process.pid

    @property
    def noise_lines(self) -> int:
        """The number of lines on standard output that were not protocol messages."""
        return self._transport.noise_lines

    @property
    def output_schemas(self) -> dict[str, Any]:
        """What tools state about the form of their results, by the tools' names."""
        return self._transport.listing.output_schemas

    @property
    def refused_tools(self) -> dict[str, str]:
        """The tools that no model can have, and why, by name."""
        return self._transport.listing.refused

    async def serve(self, closing: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        """Keep the session open until ``closing`` is set.

        ``task_status`` is also marked as started if connecting fails.
        """
        from mcp import Client

        try:
            # Every published server speaks the initialize handshake, and old ones die of the newer one's first request.
            mode, asked, most = self._plan.protocol or "legacy", self._forms.callback, sys.maxsize
            client = Client(self._transport, mode=mode, elicitation_callback=asked, input_required_max_rounds=most)
            async with self._process, self._connected(client):
                self._client = client
                task_status.started()
                await closing.wait()
        except Exception as error:  # noqa: BLE001  # any error of a broken server is kept as its failure, for callers
            self._failure = error
            if self._client is None:
                task_status.started()
        finally:
            self._client = None

    @asynccontextmanager
    async def _connected(self, client: "Client") -> AsyncIterator[None]:
        seconds = self._plan.limits.tool_start_seconds
        with anyio.CancelScope() as scope:
            scope.deadline = anyio.current_time() + seconds
            async with client:
                self.tools = await all_tools(client)
                scope.deadline = float("inf")
                server = client.server_info
                self.info = {
                    "name": server.name if server else "",
                    "version": server.version if server else "",
                    "protocol": str(client.protocol_version),
                }
                yield
        if scope.cancelled_caught:
            raise TimeoutError(f"no answer to the handshake within {seconds:g} s (limits.tool_start_seconds)")

    def check(self) -> None:
        """Check that the server is running."""
        if self._client is None or self._process.is_gone:
            raise self._gone("is not running")

    async def call(self, tool: str, arguments: dict[str, Any]) -> ServerAnswer:
        """Call one tool. A protocol error from a server that still runs counts as the tool's own error."""
        from mcp import MCPError

        self.check()
        assert self._client is not None
        try:
            with self._forms.call(self._plan.limits.command_seconds) as scope:
                result = await self._client.call_tool(tool, arguments)
            if scope.cancelled_caught:
                raise ToolBoundaryError(
                    f"MCP server {self.name} gave no answer to {tool} within {self._plan.limits.command_seconds:g} s",
                    kind="server_timeout",
                )
        except MCPError as error:
            if self._process.is_gone:
                raise self._gone(f"went away during {tool}") from error
            return ServerAnswer(f"{error}", is_error=True)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise self._gone(f"went away during {tool}") from error
        text, unshown = shown_result(result, tool)
        return ServerAnswer(text, is_error=bool(result.is_error), unshown=unshown)

    def _gone(self, what: str) -> ToolBoundaryError:
        words = self._process.last_words()
        cause = f": {_first_cause(self._failure)}" if self._failure else ""
        said = f"; its last output was: {words}" if words else ""
        return ToolBoundaryError(f"MCP server {self.name} (process {self.pid}) {what}{cause}{said}", kind="server_gone")


def _first_cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__} {one_line(error)}".strip()


@asynccontextmanager
async def running_servers(plans: list[ServerPlan]) -> AsyncIterator[list[RunningServer]]:
    """Start servers in parallel, yield them once each has connected or failed, and end all of them afterwards.

    An exception from the body is raised unchanged, never wrapped in a group, because callers classify it by its class.
    """
    servers = [RunningServer(plan) for plan in plans]
    closing = anyio.Event()
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            async with anyio.create_task_group() as starting:
                for server in servers:
                    starting.start_soon(_start, group, server, closing)
            yield servers
        except Exception as error:  # noqa: BLE001  # raised again below, outside of the task group
            failure = error
        finally:
            closing.set()
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _start(group: Any, server: RunningServer, closing: anyio.Event) -> None:
    await group.start(server.serve, closing)
