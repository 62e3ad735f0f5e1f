"""Tools in the shape of OpenAI's chat completions, the form in which they are sent and recorded."""

from typing import Any

from runners.conversation import ToolDefinition


def tool_to_wire(tool: ToolDefinition) -> dict[str, Any]:
    """Return the tool as an entry of a request's ``tools``."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
    }


def tool_from_wire(wire: dict[str, Any]) -> ToolDefinition:
    """Return the tool of a request's entry; the inverse of :func:`tool_to_wire`."""
    function = wire["function"]
    return ToolDefinition(
        name=function["name"],
        description=function.get("description") or "",
        input_schema=function.get("parameters") or {},
    )
