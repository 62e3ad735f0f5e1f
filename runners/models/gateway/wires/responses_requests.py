"""Requests in OpenAI's Responses format, with items instead of messages, and response storage kept by the gateway."""

from collections.abc import Mapping
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition
from lhaw_record.runners.models.chat_completions import arguments_json, input_json, named, text_of
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires.common import listed, rest, translated
from lhaw_record.runners.models.gateway.wires.common import with_model as addressed
from lhaw_record.runners.models.gateway.wires.protocol import (
    Body,
    Memory,
    RequestTool,
    RequestTurn,
    TurnPosition,
    WireRequest,
)
from lhaw_record.runners.models.streams.joining import fields
from lhaw_record.runners.models.streams.responses import OWN_TOOLS

__all__ = [
    "addressed",
    "assistant_message",
    "from_openai",
    "full_name",
    "inserted",
    "items_of",
    "keep",
    "read",
    "to_openai",
    "whole",
]

_TAKEN = frozenset({"input", "instructions", "model", "tools", "stream", "stream_options", "previous_response_id"})
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_SAID = frozenset({"message", "function_call", "custom_tool_call", "reasoning", *OWN_TOOLS})
_TO_OPENAI = {name: name for name in ("parallel_tool_calls", "temperature", "top_p")} | {
    "max_output_tokens": "max_tokens"
}
_FROM_OPENAI = {name: name for name in ("parallel_tool_calls", "temperature", "top_p")} | {
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
}


class _KeptResponse(msgspec.Struct, frozen=True):
    """The items that one response added to a conversation: those sent and those in the reply."""

    previous_id: str | None
    items: tuple[Body, ...]


def read(body: Body) -> WireRequest:
    if body.get("conversation") is not None:
        raise GatewayRefusal("'conversation' is not supported here; send 'previous_response_id' or the whole input")
    if body.get("input") is None and body.get("previous_response_id") is None:
        raise GatewayRefusal("the request has neither 'input' nor 'previous_response_id'")
    return WireRequest(
        body=body,
        model=str(body.get("model") or ""),
        turns=(*_instructions(body), *_turns(items_of(body))),
        tools=tuple(offered for tool in listed(body, "tools") for offered in _tools(tool)),
        parameters=rest(body, _TAKEN),
        is_streamed=bool(body.get("stream")),
    )


def whole(request: WireRequest, memory: Memory) -> WireRequest:
    """Add the items that a request refers to by ``previous_response_id`` or by item references."""
    body = request.body
    previous_id, own = body.get("previous_response_id"), items_of(body)
    if previous_id is None and not any(item.get("type") == "item_reference" for item in own):
        return request
    before = _items_before(previous_id, memory)
    items = [*before, *(_referred(item, memory) for item in own)]
    expanded = {**{name: value for name, value in body.items() if name != "previous_response_id"}, "input": items}
    again = read(expanded)
    return msgspec.structs.replace(again, headers=request.headers, previous_id=previous_id, kept_items=len(before))


def keep(request: WireRequest, reply: Body, memory: Memory) -> None:
    """Store the items that a response added, unless the client asked not to store them."""
    if request.body.get("store") is False:
        return
    sent = items_of(request.body)[request.kept_items :]
    output = [item for item in reply.get("output") or () if isinstance(item, dict)]
    memory[str(reply["id"])] = _KeptResponse(request.previous_id, (*sent, *output))
    for item in output:
        if isinstance(item.get("id"), str):
            memory[f"item {item['id']}"] = item


def inserted(body: Body, place: TurnPosition, text: str) -> Body:
    """Return the body with a user item after the item at ``place``."""
    items, cut = items_of(body), place.item + 1
    new = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {**body, "input": [*items[:cut], new, *items[cut:]]}


def to_openai(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    found, unknown = translated(parameters, _TO_OPENAI)
    effort = fields(parameters.get("reasoning")).get("effort")
    if effort is not None:
        found["reasoning_effort"] = effort
    choice = parameters.get("tool_choice")
    if isinstance(choice, str):
        found["tool_choice"] = choice
    elif isinstance(choice, dict) and choice.get("type") == "function":
        found["tool_choice"] = {"type": "function", "function": {"name": full_name(choice)}}
    text = fields(parameters.get("text"))
    form = {name: value for name, value in fields(text.get("format")).items() if value is not None}
    if form.get("type") == "json_schema":
        found["response_format"] = {"type": form.pop("type"), "json_schema": form}
    elif form.get("type") == "json_object":
        found["response_format"] = form
    known = {"reasoning_effort": "reasoning", "tool_choice": "tool_choice"}
    known |= {"response_format": "text"} if {*text} == {"format"} else {}
    return found, tuple(name for name in unknown if name not in {known.get(each) for each in found})


def from_openai(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    return translated(parameters, _FROM_OPENAI)


def items_of(body: Mapping[str, Any]) -> list[Body]:
    """Return the input as items. An input that is plain text becomes one user message."""
    value = body.get("input")
    return [{"type": "message", "role": "user", "content": value}] if isinstance(value, str) else listed(body, "input")


def _is_said(item: Mapping[str, Any]) -> bool:
    """Return whether an item is from the model."""
    kind = _kind(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind in _SAID or (kind.endswith("_call") and "output" not in kind)


def full_name(wire: Mapping[str, Any]) -> str:
    """Return the recorded name of a call: namespace and name, joined as other wires do."""
    name, namespace = str(wire.get("name") or ""), str(wire.get("namespace") or "")
    return f"{namespace}{name}" if not namespace or namespace.endswith("__") else f"{namespace}__{name}"


def assistant_message(items: list[Body]) -> Message:
    """Return the assistant message formed by consecutive items from the model, each text on lines of its own."""
    texts = [text_of(item.get("content"), "") for item in items if _kind(item) == "message"]
    calls = tuple(call for item in items if (call := _call(item)) is not None)
    return Message(role="assistant", content="\n".join(filter(None, texts)), tool_calls=calls)


def _kind(item: Mapping[str, Any]) -> str:
    return str(item.get("type") or "message")


def _call(item: Mapping[str, Any]) -> ToolCall | None:
    kind = _kind(item)
    call_id = str(item.get("call_id") or item.get("id") or "")
    if kind == "function_call":
        arguments = arguments_json(item.get("arguments"))
        return ToolCall(call_id=call_id, name=full_name(item), arguments_json=arguments)
    if kind == "custom_tool_call":
        return ToolCall(call_id=call_id, name=full_name(item), arguments_json=input_json(item.get("input")))
    if kind in OWN_TOOLS:
        arguments = canonical_json(item.get(OWN_TOOLS[kind]) or {}).decode()
        return ToolCall(call_id=call_id, name=kind.removesuffix("_call"), arguments_json=arguments)
    return None


def _instructions(body: Mapping[str, Any]) -> list[RequestTurn]:
    given = body.get("instructions")
    if not given:
        return []
    items = [{"role": "system", "content": given}] if isinstance(given, str) else listed(body, "instructions")
    return [RequestTurn(message=turn.message) for turn in _turns(items)]


def _turns(items: list[Body]) -> list[RequestTurn]:
    """Convert items to turns. Consecutive items from the model form one turn: it may think again within a reply."""
    turns: list[RequestTurn] = []
    said: list[Body] = []
    for at, item in enumerate(items):
        if _is_said(item):
            said.append(item)
            continue
        _close(said, turns, at)
        turns.append(RequestTurn(message=_message(item, at), place=TurnPosition(at)))
    _close(said, turns, len(items))
    return turns


def _close(said: list[Body], turns: list[RequestTurn], at: int) -> None:
    """End the model's turn before the item at ``at``."""
    message = assistant_message(said)
    if message.content or message.tool_calls:
        turns.append(RequestTurn(message=message, place=TurnPosition(at - 1)))
    said.clear()


def _message(item: Mapping[str, Any], at: int) -> Message:
    if _kind(item).endswith("_output"):
        return Message(role="tool", content=text_of(item.get("output")), tool_call_id=str(item.get("call_id") or ""))
    if _kind(item) != "message":
        return Message(role="user", content=named(item))
    role = _ROLES.get(str(item.get("role")))
    if role is None:
        raise GatewayRefusal(f"'input[{at}].role' is {item.get('role')!r}; known: {', '.join(_ROLES)}")
    return Message(role="system" if role == "system" else "user", content=text_of(item.get("content")))


def _tools(wire: Mapping[str, Any], namespace: str | None = None) -> list[RequestTool]:
    kind = wire.get("type", "function")
    if kind == "namespace":
        inner = [offered for tool in listed(wire, "tools") for offered in _tools(tool, str(wire.get("name")))]
        is_deferred = bool(wire.get("defer_loading"))
        return [msgspec.structs.replace(tool, is_deferred=tool.is_deferred or is_deferred) for tool in inner]
    own_name = str(wire.get("name") or kind)
    schema: dict[str, Any] = {}
    if kind == "function":
        schema = dict(wire.get("parameters") or {})
    elif kind == "custom":
        schema = {"type": "object", "properties": {"input": {"type": "string"}}}
    definition = ToolDefinition(
        name=full_name({"name": own_name, "namespace": namespace}),
        description=str(wire.get("description") or ""),
        input_schema=schema,
    )
    return [
        RequestTool(
            definition=definition,
            kind=kind if kind in ("function", "custom") else "provider",
            namespace=namespace,
            own_name=own_name,
            is_deferred=bool(wire.get("defer_loading")),
        )
    ]


def _items_before(previous_id: Any, memory: Memory) -> list[Body]:
    chain: list[tuple[Body, ...]] = []
    current = previous_id
    while current is not None:
        kept = memory.get(str(current))
        if not isinstance(kept, _KeptResponse):
            raise GatewayRefusal(f"the previous response {current!r} was not served in this trial, or not stored")
        chain.append(kept.items)
        current = kept.previous_id
    return [item for items in reversed(chain) for item in items]


def _referred(item: Body, memory: Memory) -> Body:
    if item.get("type") != "item_reference":
        return item
    found = memory.get(f"item {item.get('id')}")
    if not isinstance(found, dict):
        raise GatewayRefusal(f"the item {item.get('id')!r} was not served in this trial, or not stored")
    return found
