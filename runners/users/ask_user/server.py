"""The ``ask_user`` tool, and an MCP server for it over stdio and HTTP.

The server offers this tool and, for programs, also (or only) a benchmark's own tools. It announces no prompts or
resources, because some clients give their models tools for them, and the arms of a comparison would then differ in more
than the ability to ask.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec

from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult
from lhaw_record.runners.base.errors import UserSimulatorError

if TYPE_CHECKING:
    from mcp.server import Server, ServerRequestContext
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

TOOL_NAME = "ask_user"
SERVER_NAME = "lhaw-record-ask-user"
CALL_ID_KEY = "lhaw-record/callId"
MAX_CHARACTERS = 20_000
_OTHER_CALL_ID_KEYS = ("callId", "toolUseId", "tool-call-request-id")

DESCRIPTION = (
    "Ask the person who gave you this task one question and get their answer. Use it when something that you need "
    "for the task is missing or unclear and cannot be found out in any other way."
)

DELIVERY_KEY = "lhaw_record.delivery"
"""The ASGI scope key under which the HTTP side stores the AnswerDelivery of a request."""


class AnswerDelivery:
    """Delivery state of one answer: open, done as far as the server can tell, or lost with its client."""

    def __init__(self) -> None:
        self.state: Literal["open", "done", "lost"] = "open"

    def end(self, state: Literal["done", "lost"]) -> None:
        """Record how the delivery ended. Later calls have no effect."""
        if self.state == "open":
            self.state = state


class McpCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call over MCP.

    ``call_id`` is the model's id for its tool call, or None if the client does not send it. ``request_id`` is the
    JSON-RPC id, which is unique within ``session_id``. ``delivery`` is None if the connection cannot break.
    """

    call_id: str | None = None
    request_id: str | int | None = None
    session_id: str | None = None
    delivery: AnswerDelivery | None = None


class AskUserCall(McpCall, frozen=True, kw_only=True):
    """One call to ``ask_user``."""

    question: str
    context: str = ""


class ToolRequest(McpCall, frozen=True, kw_only=True):
    """One call to a benchmark's own tool."""

    name: str
    arguments: dict[str, Any]


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark's own tools, and the function that executes a call. The agent sees no details of its exceptions."""

    tools: tuple[ToolDefinition, ...]
    call: Callable[[ToolRequest], Awaitable[ToolResult]]


Handler = Callable[[AskUserCall], Awaitable[str]]
"""Returns the answer to a question. Raises UserSimulatorError if the user could not answer."""


def build_server(
    handler: Handler | None,
    tool_name: str = TOOL_NAME,
    progress_every_s: float = 10.0,
    offer: ToolOffer | None = None,
) -> "Server[Any]":
    """Return an MCP server with the tool ``ask_user(question, context="")``, which answers in plain text."""
    from mcp.server import Server
    from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

    offered = offer.tools if offer is not None else ()
    all_tools = ([ask_user_tool(tool_name)] if handler else []) + list(offered)
    tools = [Tool(name=t.name, description=t.description, input_schema=t.input_schema) for t in all_tools]
    others = frozenset(each.name for each in offered)

    async def list_tools(
        context: "ServerRequestContext[Any]", params: "PaginatedRequestParams | None"
    ) -> "ListToolsResult":
        return ListToolsResult(tools=tools)

    async def call_tool(context: "ServerRequestContext[Any]", params: "CallToolRequestParams") -> "CallToolResult":
        arguments = params.arguments or {}
        problem, answer = None, None
        if offer is not None and params.name in others:
            answer = _called(offer, ToolRequest(name=params.name, arguments=arguments, **_origin(context)))
        elif handler is None or params.name not in (tool_name, TOOL_NAME):
            problem = f"There is no tool {params.name!r}. Tools: {', '.join(each.name for each in tools)}."
        else:
            problem = problem_with(params.name, arguments)
            if problem is None:
                asked = AskUserCall(
                    question=arguments["question"], context=arguments.get("context") or "", **_origin(context)
                )
                answer = _answered(handler, asked)
        if answer is None:
            text, is_error = problem or "", True
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(_report_progress, context, progress_every_s)
                text, is_error = await answer
                group.cancel_scope.cancel()
        return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)

    return Server(SERVER_NAME, on_list_tools=list_tools, on_call_tool=call_tool)


def call_id_of(meta: Mapping[str, Any]) -> str | None:
    """Return the model's tool-call id from a request's ``_meta``. Clients use different keys for it."""
    own = meta.get(CALL_ID_KEY)
    if isinstance(own, str):
        return own
    for ending in _OTHER_CALL_ID_KEYS:
        for key, value in meta.items():
            if key.endswith(ending) and isinstance(value, str):
                return value
    return None


def ask_user_tool(name: str) -> ToolDefinition:
    """Return the tool as every agent sees it."""
    schema = {
        "type": "object",
        "properties": {
            "question": {"title": "Question", "type": "string"},
            "context": {"default": "", "title": "Context", "type": "string"},
        },
        "required": ["question"],
        "title": f"{name}Arguments",
    }
    return ToolDefinition(name=name, description=DESCRIPTION, input_schema=schema)


def problem_with(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the problem with a question, worded for the model, or None if it can be asked."""
    question, context = arguments.get("question"), arguments.get("context") or ""
    if not isinstance(question, str) or not isinstance(context, str):
        return f"{name} takes 'question', a text, and optionally 'context', a text. Call {name} again with these."
    if not question.strip():
        return f"The question is empty. Call {name} again with one full question in 'question'."
    length = len(question) + len(context)
    if length > MAX_CHARACTERS:
        return (
            f"Question and context have {length:,} characters, more than the {MAX_CHARACTERS:,} that a person reads. "
            f"Call {name} again with one short question."
        )
    return None


def _origin(context: "ServerRequestContext[Any]") -> dict[str, Any]:
    """Return the origin of a call, which over HTTP includes a session id and a delivery."""
    request = context.request
    return {
        "call_id": call_id_of(context.meta or {}),
        "request_id": context.request_id,
        "session_id": request.headers.get("mcp-session-id") if request is not None else None,
        "delivery": request.scope.get(DELIVERY_KEY) if request is not None else None,
    }


async def _called(offer: ToolOffer, call: ToolRequest) -> tuple[str, bool]:
    """Return the text of the tool result, and whether the result is an error."""
    try:
        result = await offer.call(call)
    except Exception:  # noqa: BLE001 - the offer keeps the error for the trial; the agent is told no details
        return f"The tool {call.name} cannot be reached.", True
    return result.text, result.is_error


async def _answered(handler: Handler, question: AskUserCall) -> tuple[str, bool]:
    """Return the text of the tool result, and whether the result is an error."""
    try:
        return await handler(question), False
    except UserSimulatorError as error:
        return f"The user cannot be reached: {error}", True
    except Exception:  # noqa: BLE001 - the handler keeps the error for the trial; the agent is told no details
        return "The user cannot be reached.", True


async def _report_progress(context: "ServerRequestContext[Any]", every_s: float) -> None:
    waited = 0
    while True:
        await anyio.sleep(every_s)
        waited += 1
        await context.session.report_progress(waited)
