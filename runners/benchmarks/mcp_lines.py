"""Read the lines that an MCP server prints on its standard output."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage


def parse_line(line: bytes, output_schemas: dict[str, Any]) -> "SessionMessage | None":
    """Return the JSON-RPC message in one line of standard output, or None if the line is not a message.

    Output schemas are taken out of tool lists: agents read the text of a result, and a client that knows a schema
    rejects servers whose schemas or structured results do not match it.

    Args:
        line: The line.
        output_schemas: Is given the output schemas, by tool.
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
