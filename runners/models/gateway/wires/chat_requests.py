"""Requests in OpenAI's chat completions format."""

from collections.abc import Mapping
from typing import Any

from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition
from lhaw_record.runners.models.chat_completions import read_call, text_of
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires.common import keep_nothing as keep
from lhaw_record.runners.models.gateway.wires.common import listed, rest, translated
from lhaw_record.runners.models.gateway.wires.common import whole_already as whole
from lhaw_record.runners.models.gateway.wires.common import with_model as addressed
from lhaw_record.runners.models.gateway.wires.protocol import Body, RequestTool, RequestTurn, TurnPosition, WireRequest

__all__ = ["addressed", "from_openai", "inserted", "keep", "read", "to_openai", "whole"]

_TAKEN = frozenset({"messages", "model", "tools", "stream", "stream_options"})
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
# Parameters that other models or providers may understand. This wire already uses OpenAI's names.
_OPENAI = {
    name: name
    for name in (
        "frequency_penalty",
        "max_completion_tokens",
        "max_tokens",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "tool_choice",
        "top_p",
    )
}


def read(body: Body) -> WireRequest:
    messages = listed(body, "messages")
    if not messages:
        raise GatewayRefusal("'messages' is missing or empty")
    return WireRequest(
        body=body,
        model=str(body.get("model") or ""),
        turns=tuple(
            RequestTurn(message=_message(wire, at), place=TurnPosition(at)) for at, wire in enumerate(messages)
        ),
        tools=tuple(_tool(tool) for tool in listed(body, "tools")),
        parameters=rest(body, _TAKEN),
        is_streamed=bool(body.get("stream")),
    )


def inserted(body: Body, place: TurnPosition, text: str) -> Body:
    """Return the body with a user message after the message at ``place``."""
    messages = body["messages"]
    cut = place.item + 1
    return {**body, "messages": [*messages[:cut], {"role": "user", "content": text}, *messages[cut:]]}


def to_openai(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    return translated(parameters, _OPENAI)


def from_openai(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the parameters unchanged, because this wire uses OpenAI's names."""
    return dict(parameters), ()


def _message(wire: Mapping[str, Any], at: int) -> Message:
    role = _ROLES.get(str(wire.get("role")))
    if role is None:
        raise GatewayRefusal(f"'messages[{at}].role' is {wire.get('role')!r}; known: {', '.join(_ROLES)}")
    if role == "assistant":
        calls = tuple(read_call(call) for call in listed(wire, "tool_calls"))
        text = text_of(wire.get("content"), "") or str(wire.get("refusal") or "")
        return Message(role="assistant", content=text, tool_calls=calls)
    text = text_of(wire.get("content"))
    if role == "tool":
        return Message(role="tool", content=text, tool_call_id=str(wire.get("tool_call_id") or ""))
    return Message(role="system" if role == "system" else "user", content=text)


def _tool(wire: Mapping[str, Any]) -> RequestTool:
    kind = wire.get("type", "function")
    if kind == "custom":
        custom = wire.get("custom") or {}
        return _offered(custom, "custom", {"type": "object", "properties": {"input": {"type": "string"}}})
    if kind == "function":
        function = wire.get("function") or {}
        return _offered(function, "function", function.get("parameters") or {})
    name = str(wire.get("name") or kind)
    return RequestTool(definition=ToolDefinition(name=name, description="", input_schema={}), kind="provider")


def _offered(wire: Mapping[str, Any], kind: Any, schema: Mapping[str, Any]) -> RequestTool:
    name = str(wire.get("name") or "")
    definition = ToolDefinition(name=name, description=str(wire.get("description") or ""), input_schema=dict(schema))
    return RequestTool(definition=definition, kind=kind, own_name=name)
