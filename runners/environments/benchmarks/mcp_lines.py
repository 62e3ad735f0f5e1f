"""The door of MCP servers that exchange JSON lines: all that one sends is made whole here, and what is not, is named.

Text is made valid, a tool that no model can have is left out, and a result becomes text: also what is only in
``structuredContent``, and the address of a link.
"""

import base64
import hashlib
import json
import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import TaskGroup

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.runners.base.conversation.messages import ToolDefinition
from lhaw_record.runners.base.errors import BoundaryError, ToolBoundaryError, ungrouped
from lhaw_record.runners.base.text.fields import shallow_json, shown, with_valid_text
from lhaw_record.runners.environments.grading.grade import Artifact
from lhaw_record.runners.environments.sandboxes.command_output import cut_text
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp.client.session import ElicitationFnT
    from mcp.shared.message import SessionMessage
    from mcp_types import CallToolResult, Tool

    from lhaw_record.runners.environments.benchmarks.protocol import FillIn
    from lhaw_record.runners.environments.sandboxes.docker.sidecar import LineChannel

MAX_TOOL_PAGES = 100
MAX_FORMS = 10
"""The forms that one call of a tool may put before the user."""
_NO_CONTENT = ("content", "structuredContent", "isError", "resultType", "_meta")
MAX_NOISE_BYTES, MAX_NOISE_LINES = 64 << 20, 100_000
"""Limits on output that is not a message. A server that prints forever would use up the time of every trial."""


class ServerForms:
    """Forms that a server puts before the user during a call, whose time does not pass meanwhile.

    Args:
        fill_in: The user. None if the condition has none, and then the server is told so.
    """

    def __init__(self, fill_in: "FillIn | None") -> None:
        self._fill_in = fill_in
        self._calls: dict[anyio.CancelScope, float] = {}
        self._count, self._open = 0, 0
        self._failure: BoundaryError | RecorderError | None = None

    @property
    def callback(self) -> "ElicitationFnT | None":
        """What the client of the server calls for a form."""
        return None if self._fill_in is None else self._filled_in

    @contextmanager
    def call(self, seconds: float) -> "Iterator[anyio.CancelScope]":
        """Bound one call. Raises what the user failed by, after it."""
        self._count = self._count if self._calls else 0
        with anyio.CancelScope() as scope:
            self._calls[scope] = seconds
            scope.deadline = float("inf") if self._open else anyio.current_time() + seconds
            try:
                yield scope
            except Exception:
                if self._failure is None:
                    raise
            finally:
                del self._calls[scope]
        if self._failure is not None:
            raise self._failure

    async def _filled_in(self, context: Any, params: Any) -> Any:
        from mcp_types import ElicitResult, ErrorData

        del context
        assert self._fill_in is not None
        self._count += 1
        if self._count > MAX_FORMS:
            return ErrorData(code=-32600, message=f"the user fills in at most {MAX_FORMS} forms per call")
        self._pause(1)
        try:
            sent = params.model_dump(by_alias=True, exclude_none=True, mode="json")
            return ElicitResult.model_validate(await self._fill_in(sent))
        except (BoundaryError, RecorderError) as error:  # the server is told no details
            self._failure = error
            return ErrorData(code=-32603, message="the user cannot be reached")
        finally:
            self._pause(-1)

    def _pause(self, change: int) -> None:
        """Count the open forms, and stop the clocks of the running calls while any form is open."""
        was_open, self._open, now = self._open, self._open + change, anyio.current_time()
        for scope, seconds in self._calls.items():
            if not was_open:
                self._calls[scope] = scope.deadline - now
                scope.deadline = float("inf")
            elif not self._open:
                scope.deadline = now + seconds


class ServerStreams(Protocol):
    """The standard streams of a server."""

    @property
    def lines(self) -> AsyncIterable[bytes]:
        """The lines of its standard output, until the output ends."""

    async def write(self, line: bytes) -> None:
        """Send a line to its standard input."""

    def break_off(self, reason: str, kind: str) -> None:
        """Read no more from it, for a reason."""


def whole_tool(tool: Any) -> dict[str, Any]:
    """Return what agents get of a listed tool. Raises ValueError, which names the field, if no model can have it."""
    name, schema = (tool.get("name"), tool.get("inputSchema")) if isinstance(tool, dict) else ("", None)
    if not name or not isinstance(name, str):
        raise ValueError(f"name is {shown(name)}, expected a text")
    if not isinstance(schema, dict):
        raise ValueError(f"inputSchema is {shown(schema)}, expected an object")  # noqa: TRY004  the caller's one kind
    for key, kind, is_kind in (
        ("type", "'object'", schema.get("type", "object") == "object"),
        ("properties", "an object", isinstance(schema.get("properties", {}), dict)),
        ("required", "a list", isinstance(schema.get("required", []), list)),
    ):
        if not is_kind:
            raise ValueError(f"inputSchema.{key} is {shown(schema[key])}, expected {kind}")
    notes, said = tool.get("annotations"), tool.get("description")
    return {
        "name": name,
        "inputSchema": {"type": "object", **schema},
        **({"description": said} if isinstance(said, str) else {}),
        **({"annotations": {"readOnlyHint": True}} if isinstance(notes, dict) and notes.get("readOnlyHint") else {}),
    }


class ToolListing:
    """What servers list besides tools that models can have.

    Attributes:
        output_schemas: What tools state about the form of their results, by the tools' names.
        refused: Why no model can have a tool, by name.
    """

    def __init__(self) -> None:
        self.output_schemas: dict[str, Any] = {}
        self.refused: dict[str, str] = {}

    def of(self, tools: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """Yield the tools that models can have.

        Output schemas are taken out: agents read the text of a result, and a client that knows a schema rejects servers
        whose schemas or structured results do not match it.
        """
        for tool in tools:
            try:
                whole = whole_tool(tool)
            except ValueError as error:
                self.refused[str(tool.get("name") if isinstance(tool, dict) else tool)] = str(error)
                continue
            if schema := tool.get("outputSchema"):
                self.output_schemas[whole["name"]] = schema
            yield whole


def whole_result(result: Any) -> dict[str, Any]:
    """Return a tool result in the form that clients take, with all that an agent can be shown as text parts.

    What has another form than a result is shown as it is; one without content is empty.
    """
    if not isinstance(result, dict):
        result = {"content": result}
    if result.get("resultType") == "input_required":  # a form, whose answer the client sends with the call again
        return {**result}
    structured, content = result.get("structuredContent"), result.get("content")
    if content is None:
        content = {key: value for key, value in result.items() if key not in _NO_CONTENT} or []
    parts = [_whole_part(part) for part in (content if isinstance(content, list) else [content])]
    if structured is not None and not _says([part["text"] for part in parts if "text" in part], structured):
        parts.append(_text(structured))
    return {"content": parts, "isError": bool(result.get("isError")), "resultType": "complete"}


def _whole_part(part: Any) -> dict[str, Any]:
    """Return a part as clients take it. What is no picture, sound or file becomes text: a link, or an unknown part."""
    kind, inner = (part.get("type"), part.get("resource")) if isinstance(part, dict) else (None, None)
    if kind in ("text", None) and isinstance(part, dict) and isinstance(part.get("text"), str):
        return _text(part["text"])
    if kind == "resource_link":
        words = [f"{part.get(key)}" for key in ("title", "name", "uri", "description") if part.get(key)]
        return _text(f"[resource_link {' | '.join(words)}]")
    if kind == "resource" and isinstance(inner, dict):
        if isinstance(inner.get("text"), str):
            return _text(f"[resource {inner.get('uri')}]\n{inner['text']}")
        if isinstance(inner.get("blob"), str):
            return {"type": kind, "resource": {"uri": f"{inner.get('uri')}", "blob": inner["blob"], **_media_of(inner)}}
    if kind in ("image", "audio") and isinstance(part.get("data"), str):
        return {"type": kind, "data": part["data"], **_media_of(part)}
    return _text(part)


def _whole_error(error: Any) -> dict[str, Any]:
    """Return an error of a server in the form that clients take."""
    code, said = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, error)
    return {"code": code if isinstance(code, int) else -32603, "message": _text(said or error)["text"]}


def _text(value: Any) -> dict[str, Any]:
    return {"type": "text", "text": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


def _media_of(part: dict[str, Any]) -> dict[str, str]:
    return {"mimeType": part["mimeType"] if isinstance(part.get("mimeType"), str) else "application/octet-stream"}


def _says(texts: Sequence[str], structured: Any) -> bool:
    """Return whether texts hold a structured result, whole or as servers wrap one value (``result``, ``content``)."""
    is_wrapped = isinstance(structured, dict) and len(structured) == 1
    values = [_value(text) for text in texts]
    forms = [structured, *(structured.values() if is_wrapped else ())]
    return bool(texts) and any(form in (*values, *texts, values, texts) for form in forms)


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except RecursionError:
        return json.loads(shallow_json(line))


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def shown_result(result: "CallToolResult", tool: str) -> tuple[str, tuple[Artifact, ...]]:
    """Return the text of a whole tool result as an agent reads it, and what it cannot be shown, to be kept.

    Text parts are joined by newlines. Other parts are replaced by a note that names their type.
    """
    texts, unshown = [], []
    for part in result.content:
        if part.type == "text":
            texts.append(part.text)
            continue
        inner = part.resource if part.type == "resource" else part
        kind = getattr(inner, "mime_type", None) or "application/octet-stream"
        content = _bytes_of(str(getattr(inner, "blob", None) or getattr(inner, "data", "")))
        texts.append(f"[{part.type} content, not shown: {kind}, {len(content):,} bytes]")
        name = f"{tool}-{hashlib.sha256(content).hexdigest()[:12]}.{kind.rpartition('/')[2]}"
        unshown.append(Artifact(name=name, role="tool_content", media_type=kind, content=content))
    return "\n".join(texts), tuple(unshown)


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return text.encode()


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
    """Return a tool's definition as the model receives it."""
    schema = {key: value for key, value in tool.input_schema.items() if key != "$schema"}
    return ToolDefinition(name=name, description=tool.description or tool.name, input_schema=schema)


def shortened(text: str, most_bytes: int) -> str:
    """Return a text, cut in the middle if it is too long."""
    content, half = text.encode(), most_bytes // 2
    return text if len(content) <= most_bytes else cut_text(content[:half], content[-half:], len(content))


@asynccontextmanager
async def open_client(
    channel: "LineChannel", server: str, limits: SandboxLimits, forms: ServerForms | None = None
) -> "AsyncIterator[tuple[Client, tuple[Tool, ...], dict[str, str]]]":
    """Connect to the server behind a channel, and yield the client with the tools that the server lists.

    Tools that are left out come with the reason, by their names.
    """
    from mcp import Client

    seconds, channel.most_line_bytes = limits.tool_start_seconds, limits.tool_message_mb << 20
    transport = LineTransport(channel)
    with ungrouped(), anyio.CancelScope() as scope:
        scope.deadline = anyio.current_time() + seconds
        client = Client(transport, mode="legacy", elicitation_callback=forms.callback if forms else None)
        with translated(channel, server):
            await client.__aenter__()
        try:
            with translated(channel, server):
                tools = await all_tools(client)
            scope.deadline = float("inf")
            yield client, tools, transport.listing.refused
        finally:
            await client.__aexit__(*sys.exc_info())
    if scope.cancelled_caught:
        raise ToolBoundaryError(
            f"{server} did not answer within {seconds:g} s (limits.tool_start_seconds)", kind="server_timeout"
        )


@contextmanager
def translated(channel: "LineChannel", server: str) -> Iterator[None]:
    """Convert every other exception from a request to a ToolBoundaryError."""
    try:
        yield
    except ToolBoundaryError:
        raise
    except Exception as error:
        reason = channel.end[0] if channel.end else f"{type(error).__name__}: {one_line(error)}"
        raise ToolBoundaryError(f"{server} is gone: {reason}", kind="server_gone") from error


def one_line(error: BaseException) -> str:
    """Return an error's message in one line: that of a malformed answer names the field in its last ones."""
    return " ".join(str(error).split())[:600]


class LineTransport:
    """A client transport over a server's lines: it makes messages whole and skips lines that are none.

    Attributes:
        listing: What its lists of tools hold besides the tools.
        noise_lines: The number of lines that are not messages.
    """

    def __init__(self, streams: ServerStreams) -> None:
        self.listing = ToolListing()
        self.noise_lines = 0
        self._server = streams
        self._called: set[str] = set()
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
        noise_bytes = 0
        async with inbox:  # closing it fails all pending requests
            async for line in self._server.lines:
                message = self._message(line)
                if message is not None:
                    try:
                        await inbox.send(message)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return
                elif line.strip():
                    self.noise_lines += 1
                    noise_bytes += len(line)
                if noise_bytes > MAX_NOISE_BYTES or self.noise_lines > MAX_NOISE_LINES:
                    self._server.break_off(f"it printed {self.noise_lines} lines that are not messages", "server_gone")
                    return

    def _message(self, line: bytes) -> "SessionMessage | None":
        """Return the JSON-RPC message in a line, made whole, or None if the line is not a message."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        try:
            raw = _decoded(line)
            if not isinstance(raw, dict):
                return None
            raw = with_valid_text(raw) if b"\\ud" in line.lower() else raw
            if (error := raw.get("error")) is not None:
                raw["error"] = _whole_error(error)
            elif "id" in raw and str(raw["id"]) in self._called:
                raw["result"] = whole_result(raw.get("result"))
            elif isinstance(result := raw.get("result"), dict) and isinstance(result.get("tools"), list):
                raw["result"] = {**result, "tools": list(self.listing.of(result["tools"]))}
            return SessionMessage(jsonrpc_message_adapter.validate_python(raw, by_name=False))
        except (ValueError, RecursionError):
            return None

    async def _write(self, outbox: "MemoryObjectReceiveStream[SessionMessage]") -> None:
        from mcp_types import JSONRPCRequest

        async with outbox:
            async for item in outbox:
                if isinstance(item.message, JSONRPCRequest) and item.message.method == "tools/call":
                    self._called.add(str(item.message.id))
                await self._server.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
