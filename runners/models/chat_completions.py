"""Parses chat completions of any provider or litellm: content texts, tool calls, and whole replies."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lhaw_record.recorder.events.canonical_json import canonical_json, short_digest
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.models.costs import reported_usage, usage_in
from lhaw_record.runners.models.endings import is_of_known_wire, refusal_in, with_ending
from lhaw_record.runners.models.failures import check_choice, in_band_error
from lhaw_record.runners.models.protocol import ModelReply
from lhaw_record.runners.models.streams.joining import malformed, object_in

TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text"})
UNSEEN_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})  # sent back to the provider, but not text
_VOLATILE = frozenset({"cache_control", "id", "status"})  # agents move, drop and rewrite these


def read_chat(
    body: Mapping[str, Any], model: str = "the provider", own: Mapping[str, Any] = MappingProxyType({})
) -> ModelReply:
    """Parse a provider's reply, or litellm's form of it. Only the first choice counts.

    Args:
        body: The reply as a chat completion.
        model: The model's name, for messages.
        own: The provider's own body, which says why the reply ended. Empty if it is the same or not known.
    """
    if body.get("error"):
        raise in_band_error(body["error"], model)
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise malformed("it has no choices")
    choice = object_in(choices[0], "the first choice")
    check_choice(choice, model)
    wire = object_in(message_in(choice), "the message of the first choice")
    calls = tuple(read_call(object_in(call, "a tool call")) for call in wire.get("tool_calls") or ())
    if not all(call.name for call in calls):
        raise malformed("a tool call has no name")
    message = Message(
        role="assistant",
        content=text_of(wire.get("content"), "") or refusal_in(wire) or "",
        tool_calls=calls,
    )
    reply = ModelReply(
        message=message,
        finish_reason="",
        usage=reported_usage(message, usage_in(body)),
        served_model=body.get("model") or None,
    )
    return with_ending(reply, own if is_of_known_wire(own) else body, model)


def message_in(choice: Mapping[str, Any]) -> Any:
    """Return the message of a choice: an empty one where a filter left none, as Gemini's OpenAI endpoint does."""
    message = choice.get("message")
    return {} if message is None and "content_filter" in str(choice.get("finish_reason")) else message


def read_call(wire: Mapping[str, Any]) -> ToolCall:
    """Parse one tool call of an assistant message."""
    if wire.get("type") == "custom" or "custom" in wire:
        custom = wire.get("custom") or {}
        name, arguments = custom.get("name"), input_json(custom.get("input"))
    else:
        function = wire.get("function") or {}
        name, arguments = function.get("name"), arguments_json(function.get("arguments"))
    return ToolCall(call_id=str(wire.get("id") or ""), name=str(name or ""), arguments_json=arguments)


def text_of(content: Any, separator: str = "\n") -> str:
    """Return the text of a message's content. A non-text part becomes a short name with its digest."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return canonical_json(content).decode()
    parts = [part_text(part) for part in content]
    return separator.join(part for part in parts if part is not None)


def part_text(part: Any) -> str | None:
    """Return the text of one content part or block, or None for hidden reasoning."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return canonical_json(part).decode()
    kind = part.get("type")
    if kind in TEXT_TYPES or (kind is None and "text" in part):
        return str(part.get("text") or "")
    if kind == "refusal":
        return str(part.get("refusal") or "")
    if kind in UNSEEN_TYPES:
        return None
    return named(part)


def named(part: Mapping[str, Any]) -> str:
    """Return a short name for a non-text part. Equal parts have equal names."""
    steady = {name: value for name, value in part.items() if name not in _VOLATILE}
    return f"[{part.get('type') or 'part'} {short_digest(steady)[:12]}]"


def arguments_json(arguments: Any) -> str:
    """Return a call's arguments as text. Some clients send an object instead."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else canonical_json(arguments).decode()


def input_json(text: Any) -> str:
    """Return a custom tool's text input as the JSON arguments under which its call is recorded."""
    return canonical_json({"input": text if isinstance(text, str) else text_of(text)}).decode()
