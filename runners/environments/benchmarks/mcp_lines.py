"""A client for MCP servers that exchange JSON lines over standard input and output."""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from lhaw_record.runners.base.conversation.messages import ToolDefinition
from lhaw_record.runners.base.errors import ToolBoundaryError, ungrouped
from lhaw_record.runners.environments.sandboxes.command_output import cut_text

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp.shared.message import SessionMessage
    from mcp_types import CallToolResult, Tool

    from lhaw_record.runners.environments.sandboxes.docker.sidecar import LineChannel

MAX_TOOL_PAGES = 100
_CONNECT_S = 60.0


def parse_line(line: bytes, output_schemas: dict[str, Any]) -> "SessionMessage | None":
    """Return the JSON-RPC message in one line of standard output, or None if the line is not a message.

    Output schemas are taken out of tool lists: agents read the text of a result, and a client that knows a schema
    rejects servers whose schemas or structured results do not match it.
    """
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        raw = json.loads(line)
        if not isinstance(raw, dict):
            return None
        result = raw.get("result")
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and (schema := tool.pop("outputSchema", None)):
                output_schemas[str(tool.get("name"))] = schema
        return SessionMessage(jsonrpc_message_adapter.validate_python(raw, by_name=False))
    except (ValueError, RecursionError):
        return None


def result_text(result: "CallToolResult") -> str:
    """Return the text of a tool result as an agent reads it.

    Text parts are joined by newlines. Other parts are replaced by a note that names their type.
    """
    parts = []
    for part in result.content:
        if part.type == "text":
            parts.append(part.text)
        elif part.type == "resource" and hasattr(part.resource, "text"):
            parts.append(part.resource.text)
        else:
            parts.append(f"[{part.type} content, not shown]")
    return "\n".join(parts)


async def all_tools(client: "Client") -> "tuple[Tool, ...]":
    """Return the tools that a server lists, from all pages."""
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_TOOL_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tuple(tools)


def definition_of(tool: "Tool", name: str) -> ToolDefinition:
    """Return the definition of a tool that a model receives."""
    schema = {key: value for key, value in tool.input_schema.items() if key != "$schema"}
    return ToolDefinition(name=name, description=tool.description or tool.name, input_schema=schema)


def shortened(text: str, most_bytes: int) -> str:
    """Return a text, cut in the middle if it is too long."""
    content, half = text.encode(), most_bytes // 2
    return text if len(content) <= most_bytes else cut_text(content[:half], content[-half:], len(content))


@asynccontextmanager
async def open_client(channel: "LineChannel", server: str) -> "AsyncIterator[tuple[Client, tuple[Tool, ...]]]":
    """Connect to the server behind a channel, and yield the client with the tools that the server lists."""
    from mcp import Client

    with ungrouped(), anyio.CancelScope() as scope:
        scope.deadline = anyio.current_time() + _CONNECT_S
        client = Client(LineTransport(channel), mode="legacy")
        with translated(channel, server):
            await client.__aenter__()
        try:
            with translated(channel, server):
                tools = await all_tools(client)
            scope.deadline = float("inf")
            yield client, tools
        finally:
            await client.__aexit__(*sys.exc_info())
    if scope.cancelled_caught:
        raise ToolBoundaryError(f"{server} did not answer within {_CONNECT_S:g} s", kind="server_timeout")


@contextmanager
def translated(channel: "LineChannel", server: str) -> Iterator[None]:
    """Convert every other exception from a request to a ToolBoundaryError."""
    try:
        yield
    except ToolBoundaryError:
        raise
    except Exception as error:
        reason = channel.end[0] if channel.end else f"{type(error).__name__}: {error}"
        raise ToolBoundaryError(f"{server} is gone: {reason}", kind="server_gone") from error


class LineTransport:
    """A client transport over a sidecar's lines that skips lines that are not messages."""

    def __init__(self, channel: "LineChannel") -> None:
        self._channel = channel
        self._group: TaskGroup | None = None
        self._streams: tuple[Any, ...] = ()

    async def __aenter__(
        self,
    ) -> "tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]":
        from mcp.shared.message import SessionMessage

        inbox, reader = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writer, outbox = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (inbox, reader, writer, outbox)
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._read, inbox)
        self._group.start_soon(self._write, outbox)
        return reader, writer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._group is not None
        self._group.cancel_scope.cancel()
        for stream in self._streams:
            stream.close()
        return await self._group.__aexit__(kind, error, trace)

    async def _read(self, inbox: "MemoryObjectSendStream[Any]") -> None:
        async with inbox:  # closing it fails all pending requests
            async for line in self._channel.lines:
                message = parse_line(line, {})
                if message is None:
                    continue
                try:
                    await inbox.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return

    async def _write(self, outbox: "MemoryObjectReceiveStream[SessionMessage]") -> None:
        async with outbox:
            async for item in outbox:
                self._channel.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
