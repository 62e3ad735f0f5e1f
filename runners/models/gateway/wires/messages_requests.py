"""Requests in Anthropic's Messages format, where tool results and texts are blocks of one user message."""

from collections.abc import Mapping
from typing import Any

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition
from lhaw_record.runners.models.chat_completions import part_text, text_of
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires.common import end_texts, listed, rest, translated
from lhaw_record.runners.models.gateway.wires.common import keep_nothing as keep
from lhaw_record.runners.models.gateway.wires.common import whole_already as whole
from lhaw_record.runners.models.gateway.wires.common import with_model as addressed
from lhaw_record.runners.models.gateway.wires.protocol import Body, RequestTool, RequestTurn, TurnPosition, WireRequest
from lhaw_record.runners.models.streams.joining import fields

__all__ = ["addressed", "from_openai", "inserted", "keep", "read", "to_openai", "whole"]

_TAKEN = frozenset({"messages", "system", "model", "tools", "stream"})
_OPENAI = {"max_tokens": "max_tokens", "stop_sequences": "stop", "temperature": "temperature", "top_p": "top_p"}
_FROM_OPENAI = {"max_tokens": "max_tokens", "max_completion_tokens": "max_tokens"} | {
    name: name for name in ("temperature", "top_p")
}
_EFFORTS = frozenset({"low", "medium", "high"})  # chat completions servers reject unknown values
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read(body: Body) -> WireRequest:
    messages = listed(body, "messages")
    if not messages:
        raise GatewayRefusal("'messages' is missing or empty")
    turns = [RequestTurn(message=Message(role="system", content=text)) for text in _system(body)]
    for at, message in enumerate(messages):
        turns.extend(_turns(message, at))
    return WireRequest(
        body=body,
        model=str(body.get("model") or ""),
        turns=tuple(turns),
        tools=tuple(_tool(tool) for tool in listed(body, "tools")),
        parameters=rest(body, _TAKEN),
        is_streamed=bool(body.get("stream")),
    )


def inserted(body: Body, place: TurnPosition, text: str) -> Body:
    """Return the body with a text block after the block at ``place``, in the same user message."""
    messages = list(body["messages"])
    message, block = messages[place.item], {"type": "text", "text": text}
    if message.get("role") != "user":
        messages.insert(place.item + 1, {"role": "user", "content": [block]})
        return {**body, "messages": messages}
    content = message.get("content")
    blocks = ([{"type": "text", "text": content}] if content else []) if isinstance(content, str) else list(content)
    cut = len(blocks) if place.block is None else place.block + 1
    messages[place.item] = {**message, "content": [*blocks[:cut], block, *blocks[cut:]]}
    return {**body, "messages": messages}


def to_openai(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    found, unknown = translated(parameters, _OPENAI)
    choice = fields(parameters.get("tool_choice"))
    kind = str(choice.get("type"))
    if kind in _CHOICES:
        found["tool_choice"] = _CHOICES[kind]
    elif kind == "tool":
        found["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    if choice.get("disable_parallel_tool_use"):
        found["parallel_tool_calls"] = False
    output = fields(parameters.get("output_config"))
    form, left = fields(output.get("format")), {*output}
    if form.get("type") == "json_schema":
        schema = {"name": "reply", "schema": form.get("schema")}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
        left.discard("format")
    if output.get("effort") in _EFFORTS:
        found["reasoning_effort"] = output["effort"]
        left.discard("effort")
    known = {*found} if left else {*found, "output_config"}
    return found, tuple(name for name in unknown if name not in known)


def from_openai(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    found, unknown = translated(parameters, _FROM_OPENAI)
    stop = parameters.get("stop")
    if stop is not None:
        found["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    return found, tuple(name for name in unknown if name != "stop")


def assistant_message(content: Any) -> Message:
    if not isinstance(content, list):
        return Message(role="assistant", content=text_of(content))
    texts = [part_text(block) for block in content if isinstance(block, dict) and block.get("type") == "text"]
    calls = tuple(
        ToolCall(
            call_id=str(block.get("id") or ""),
            name=str(block.get("name") or ""),
            arguments_json=canonical_json(block.get("input") or {}).decode(),
        )
        for block in content
        if isinstance(block, dict) and block.get("type") == "tool_use"
    )
    return Message(role="assistant", content="".join(filter(None, texts)), tool_calls=calls)


def _system(body: Mapping[str, Any]) -> list[str]:
    """Return the system texts, one per block, because some agents change the first block in every request."""
    system = body.get("system")
    if isinstance(system, str) or system is None:
        return [system] if system else []
    return [text for block in listed(body, "system") if (text := part_text(block))]


def _turns(message: Mapping[str, Any], at: int) -> list[RequestTurn]:
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return [RequestTurn(message=assistant_message(content), place=TurnPosition(at))]
    if role == "system":
        return [RequestTurn(message=Message(role="system", content=text_of(content)), place=TurnPosition(at))]
    if role != "user":
        raise GatewayRefusal(f"'messages[{at}].role' is {role!r}; known: user, assistant, system")
    if not isinstance(content, list):
        return [RequestTurn(message=Message(role="user", content=text_of(content)), place=TurnPosition(at))]
    return _blocks(content, at)


def _blocks(content: list[Any], at: int) -> list[RequestTurn]:
    """Return the turns of a user message: one for each result, and one for the joined texts between results."""
    turns: list[RequestTurn] = []
    texts: list[str] = []
    for number, block in enumerate(content):
        if isinstance(block, dict) and block.get("type") == "tool_result":
            end_texts(texts, turns, TurnPosition(at, number - 1))
            result = text_of(block.get("content"))
            message = Message(role="tool", content=result, tool_call_id=str(block.get("tool_use_id") or ""))
            turns.append(
                RequestTurn(message=message, place=TurnPosition(at, number), is_error=bool(block.get("is_error")))
            )
        else:
            texts.append(part_text(block) or "")
    end_texts(texts, turns, TurnPosition(at, len(content) - 1))
    return turns


def _tool(wire: Mapping[str, Any]) -> RequestTool:
    name = str(wire.get("name") or wire.get("type") or "")
    is_function = wire.get("type", "custom") == "custom" and "input_schema" in wire
    definition = ToolDefinition(
        name=name,
        description=str(wire.get("description") or ""),
        input_schema=dict(wire.get("input_schema") or {}),
    )
    return RequestTool(
        definition=definition,
        kind="function" if is_function else "provider",
        own_name=name,
        is_deferred=bool(wire.get("defer_loading")),
    )
