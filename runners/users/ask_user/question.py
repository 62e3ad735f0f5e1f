"""Calls that arrive over MCP, and the delivery of their answers: a client may send a call twice."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult

DELIVERY_KEY = "lhaw_record.delivery"
"""The ASGI scope key under which the HTTP side stores the Delivery of a request."""


class Delivery:
    """State of one answer's delivery: still open, done as far as the server can tell, or lost with its client."""

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
    delivery: Delivery | None = None


class Question(McpCall, frozen=True, kw_only=True):
    """One call to ``ask_user``."""

    question: str
    context: str = ""


class ToolCall(McpCall, frozen=True, kw_only=True):
    """One call to another tool, a benchmark's own."""

    name: str
    arguments: dict[str, Any]


class ToolOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark's own tools, and what executes a call. It raises whatever broke; the agent is told no details."""

    tools: tuple[ToolDefinition, ...]
    call: Callable[[ToolCall], Awaitable[ToolResult]]


Handler = Callable[[Question], Awaitable[str]]
"""Returns the answer to a question. Raises UserSimulatorError if the user could not answer."""
