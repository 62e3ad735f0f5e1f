"""A running MCP server of one environment: connected, asked, and gone again, with every wait bounded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskStatus

from runners.benchmarks.mcp_atlas.confinement import ProcessPlan
from runners.benchmarks.mcp_atlas.transport import ServerTransport
from runners.errors import ToolBoundaryError

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, Tool

MAX_TOOL_PAGES = 100


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A server to start: the name that is recorded for it, its process, and its time limits in seconds."""

    name: str
    process: ProcessPlan
    connect_seconds: float = 30.0
    call_seconds: float = 60.0


class ServerAnswer(msgspec.Struct, frozen=True):
    """The text of a tool result, its parts joined by line ends, and whether the tool reported an error."""

    text: str
    is_error: bool


class RunningServer:
    """A connected server. Its session lives in one task of its own, so that its end never cancels the caller."""

    def __init__(self, plan: ServerPlan) -> None:
        self.name = plan.name
        self.tools: tuple[Tool, ...] = ()
        self.info: dict[str, str] = {}
        self._plan = plan
        self._transport = ServerTransport(plan.process)
        self._client: Client | None = None
        self._failure: BaseException | None = None

    @property
    def pid(self) -> int | None:
        """The id of the server's process; ending it ends the server."""
        return self._transport.pid

    @property
    def noise_lines(self) -> int:
        """How many lines on standard output were no protocol messages."""
        return self._transport.noise_lines

    async def serve(self, closing: anyio.Event, *, task_status: TaskStatus[None]) -> None:
        """Hold the session open until ``closing``; reports itself started also when it could not connect."""
        from mcp import Client

        try:
            # Every published server speaks the initialize handshake; only some know the newer one.
            client = Client(self._transport, mode="legacy")
            async with self._connected(client):
                self._client = client
                task_status.started()
                await closing.wait()
        except Exception as error:  # noqa: BLE001  # whatever a broken server causes is its failure, told to callers
            self._failure = error
            if self._client is None:
                task_status.started()
        finally:
            self._client = None

    @asynccontextmanager
    async def _connected(self, client: "Client") -> AsyncIterator[None]:
        with anyio.CancelScope() as scope:
            scope.deadline = anyio.current_time() + self._plan.connect_seconds
            async with client:
                self.tools = await _all_tools(client)
                scope.deadline = float("inf")
                server = client.server_info
                self.info = {
                    "name": server.name if server else "",
                    "version": server.version if server else "",
                    "protocol": str(client.protocol_version),
                }
                yield
        if scope.cancelled_caught:
            raise TimeoutError(f"no answer to the handshake within {self._plan.connect_seconds:g} s")

    def check(self) -> None:
        """Raise if the server is not there.

        Raises:
            ToolBoundaryError: It could not be started, or has gone since.
        """
        if self._client is None or self._transport.is_gone:
            raise self._gone("is not running")

    async def call(self, tool: str, arguments: dict[str, Any]) -> ServerAnswer:
        """Call one tool; a protocol error that the living server answers with is the tool's own error.

        Raises:
            ToolBoundaryError: The server died, or gave no answer in time.
        """
        from mcp import MCPError

        self.check()
        assert self._client is not None
        try:
            with anyio.fail_after(self._plan.call_seconds):
                result = await self._client.call_tool(tool, arguments)
        except TimeoutError as error:
            raise ToolBoundaryError(
                f"MCP server {self.name} gave no answer to {tool} within {self._plan.call_seconds:g} s",
                kind="server_timeout",
            ) from error
        except MCPError as error:
            if self._transport.is_gone:
                raise self._gone(f"went away during {tool}") from error
            return ServerAnswer(f"{error}", is_error=True)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise self._gone(f"went away during {tool}") from error
        except ValueError as error:  # pydantic: a result that breaks the protocol
            raise ToolBoundaryError(
                f"MCP server {self.name} answered {tool} with a malformed result: {str(error)[:300]}",
                kind="malformed_result",
            ) from error
        return ServerAnswer(result_text(result), is_error=bool(result.is_error))

    def _gone(self, what: str) -> ToolBoundaryError:
        words = self._transport.last_words()
        cause = f": {_first_cause(self._failure)}" if self._failure else ""
        said = f"; its last words were: {words}" if words else ""
        return ToolBoundaryError(f"MCP server {self.name} (process {self.pid}) {what}{cause}{said}", kind="server_gone")


async def _all_tools(client: "Client") -> "tuple[Tool, ...]":
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_TOOL_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(tools)


def result_text(result: "CallToolResult") -> str:
    """Return the text that an agent reads: text parts joined by line ends, other parts named by kind and size."""
    parts = []
    for part in result.content:
        if part.type == "text":
            parts.append(part.text)
        elif part.type == "resource" and hasattr(part.resource, "text"):
            parts.append(part.resource.text)
        else:
            parts.append(f"[{part.type} content, not shown]")
    return "\n".join(parts)


def _first_cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__} {error}".strip()


@asynccontextmanager
async def running_servers(plans: list[ServerPlan]) -> AsyncIterator[list[RunningServer]]:
    """Start servers side by side, yield them when each is connected or known to have failed, and end them all.

    What the body raises leaves as it is, never wrapped in a group: callers classify it by its class.
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
