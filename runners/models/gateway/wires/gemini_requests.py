"""Requests in Gemini's format: contents of parts, where function calls often have no ids.

A call without an id gets its position among all calls of the conversation as its id. Replies without ids are numbered
in the same way, so the ids match when an agent resends its history.
"""

import re
from collections.abc import Mapping
from typing import Any

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition
from lhaw_record.runners.models.chat_completions import named, text_of
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires.common import end_texts, listed, rest, typed
from lhaw_record.runners.models.gateway.wires.common import keep_nothing as keep
from lhaw_record.runners.models.gateway.wires.common import whole_already as whole
from lhaw_record.runners.models.gateway.wires.protocol import Body, RequestTool, RequestTurn, TurnPosition, WireRequest
from lhaw_record.runners.models.streams.joining import fields

__all__ = ["addressed", "from_openai", "inserted", "keep", "read", "to_openai", "whole"]

_SYSTEM = ("systemInstruction", "system_instruction")
_CONFIG = "generationConfig"
_TAKEN = frozenset({"contents", "tools", *_SYSTEM})
_TO_OPENAI = {
    "temperature": "temperature",
    "topP": "top_p",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_FROM_OPENAI = {own: name for name, own in _TO_OPENAI.items()} | {"max_completion_tokens": "maxOutputTokens"}
_CHOICES = {"AUTO": "auto", "ANY": "required", "NONE": "none"}
_OUR_ID = re.compile(r"call\d{5}")


def read(body: Body) -> WireRequest:
    """Parse a request body. The model name and the streaming flag are in the URL and are added by the caller."""
    contents = listed(body, "contents")
    if not contents:
        raise GatewayRefusal("'contents' is missing or empty")
    turns = [RequestTurn(message=Message(role="system", content=text)) for text in _system(body)]
    ids = _CallIds()
    for at, content in enumerate(contents):
        turns.extend(_turns(content, at, ids))
    return WireRequest(
        body=body,
        model="",
        turns=tuple(turns),
        tools=tuple(offered for tool in listed(body, "tools") for offered in _tools(tool)),
        parameters=rest(body, _TAKEN),
    )


def inserted(body: Body, place: TurnPosition, text: str) -> Body:
    """Return the body with a text part after the part at ``place``, in the same content."""
    contents = list(body["contents"])
    content, part = contents[place.item], {"text": text}
    if content.get("role") == "model":
        contents.insert(place.item + 1, {"role": "user", "parts": [part]})
        return {**body, "contents": contents}
    parts = list(content.get("parts") or ())
    cut = len(parts) if place.block is None else place.block + 1
    contents[place.item] = {**content, "parts": [*parts[:cut], part, *parts[cut:]]}
    return {**body, "contents": contents}


def addressed(body: Body, model: str) -> Body:
    """Return the body without the call ids added by the gateway. The model's name is in the URL."""
    contents = [_without_our_ids(content) for content in body["contents"]]
    return {**{name: value for name, value in body.items() if name != "model"}, "contents": contents}


def to_openai(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    config = fields(parameters.get(_CONFIG))
    found = {_TO_OPENAI[name]: value for name, value in config.items() if name in _TO_OPENAI and value is not None}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    if schema is not None:
        found["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    elif config.get("responseMimeType") == "application/json":
        found["response_format"] = {"type": "json_object"}
    level = fields(config.get("thinkingConfig")).get("thinkingLevel")
    if level is not None:
        found["reasoning_effort"] = str(level).lower()
    mode = fields(fields(parameters.get("toolConfig")).get("functionCallingConfig")).get("mode")
    if mode in _CHOICES:
        found["tool_choice"] = _CHOICES[mode]
    known = {*_TO_OPENAI, "responseJsonSchema", "responseSchema", "responseMimeType"}
    known |= {"thinkingConfig"} if level is not None else set()
    is_whole = known.issuperset(config)
    unknown = (name for name in parameters if name not in ("toolConfig", _CONFIG) or (name == _CONFIG and not is_whole))
    return found, tuple(unknown)


def from_openai(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    found = {_FROM_OPENAI[name]: value for name, value in parameters.items() if name in _FROM_OPENAI}
    unknown = tuple(name for name in parameters if name not in _FROM_OPENAI)
    return ({_CONFIG: found} if found else {}), unknown


def assistant_message(parts: list[Body], ids: "_CallIds | None" = None) -> Message:
    """Return the assistant message for the parts of a content. Thoughts are not part of its text."""
    texts = [str(part.get("text") or "") for part in parts if "text" in part and not part.get("thought")]
    calls = tuple(
        ToolCall(
            call_id=ids.of_call(call) if ids is not None else str(call.get("id") or ""),
            name=str(call.get("name") or ""),
            arguments_json=canonical_json(call.get("args") or {}).decode(),
        )
        for part in parts
        if (call := part.get("functionCall")) is not None
    )
    return Message(role="assistant", content="".join(texts), tool_calls=calls)


class _CallIds:
    """The call ids of a conversation: the provider's, or else sequence numbers."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def of_call(self, call: Mapping[str, Any]) -> str:
        """Return the id of the next call."""
        self._count += 1
        call_id = str(call.get("id") or f"call{self._count:05d}")
        self._open.append((call_id, str(call.get("name"))))
        return call_id

    def of_result(self, result: Mapping[str, Any]) -> str:
        """Return the call id of a result: that of the first open call with the same name."""
        name, own = str(result.get("name")), result.get("id")
        found = [each for each in self._open if each[0] == own] or [each for each in self._open if each[1] == name]
        if found:
            self._open.remove(found[0])
        return str(own or (found[0][0] if found else ""))


def _system(body: Mapping[str, Any]) -> list[str]:
    given = next((body[name] for name in _SYSTEM if body.get(name)), None)
    if isinstance(given, str):
        return [given]
    return [text for part in _parts(fields(given)) if (text := str(part.get("text") or ""))]


def _parts(content: Mapping[str, Any]) -> list[Body]:
    return listed(content, "parts")


def _turns(content: Body, at: int, ids: _CallIds) -> list[RequestTurn]:
    parts, role = _parts(content), content.get("role") or "user"
    if role == "model":
        return [RequestTurn(message=assistant_message(parts, ids), place=TurnPosition(at))]
    if role not in ("user", "function", "tool"):
        raise GatewayRefusal(f"'contents[{at}].role' is {role!r}; known: user, model")
    turns: list[RequestTurn] = []
    texts: list[str] = []
    for number, part in enumerate(parts):
        result = part.get("functionResponse")
        if result is None:
            texts.append(str(part["text"]) if "text" in part else named(typed(part)))
            continue
        end_texts(texts, turns, TurnPosition(at, number - 1))
        message = Message(role="tool", content=_result_text(fields(result)), tool_call_id=ids.of_result(result))
        turns.append(RequestTurn(message=message, place=TurnPosition(at, number)))
    end_texts(texts, turns, TurnPosition(at, len(parts) - 1))
    return turns


def _result_text(result: Mapping[str, Any]) -> str:
    """Return a result's text and image names. Most agents wrap the text in an object with one key."""
    response = fields(result.get("response"))
    inner = next(iter(response.values())) if len(response) == 1 and {"output", "result"} & {*response} else response
    text = inner if isinstance(inner, str) else text_of(canonical_json(inner).decode())
    return "\n".join([text, *(named(typed(part)) for part in _parts(result))])


def _without_our_ids(content: Body) -> Body:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return content
    return {**content, "parts": [_without_our_id(part) for part in parts]}


def _without_our_id(part: Any) -> Any:
    for name in ("functionCall", "functionResponse"):
        held = fields(part).get(name)
        if isinstance(held, dict) and _OUR_ID.fullmatch(str(held.get("id") or "")):
            return {**part, name: {key: value for key, value in held.items() if key != "id"}}
    return part


def _tools(wire: Mapping[str, Any]) -> list[RequestTool]:
    declared = wire.get("functionDeclarations") or wire.get("function_declarations")
    if not isinstance(declared, list):
        name = next(iter(wire), "tool")
        definition = ToolDefinition(name=name, description="", input_schema={})
        return [RequestTool(definition=definition, kind="provider", own_name=name)]
    offered = []
    for tool in declared:
        name = str(tool.get("name") or "")
        schema = tool.get("parametersJsonSchema") or tool.get("parameters") or {}
        definition = ToolDefinition(
            name=name, description=str(tool.get("description") or ""), input_schema=_lowered(schema)
        )
        offered.append(RequestTool(definition=definition, own_name=name))
    return offered


def _lowered(schema: Any) -> Any:
    """Return a schema with JSON Schema's lower-case type names. Gemini's own are upper-case."""
    if isinstance(schema, list):
        return [_lowered(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value.lower() if name == "type" and isinstance(value, str) else _lowered(value)
        for name, value in schema.items()
    }
