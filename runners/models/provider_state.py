"""A reply's reasoning and opaque state: parsed from the provider's body, and sent back as the provider requires.

The state is a JSON object with one key, the wire of the reply. Providers sign it or compare it with what they sent, so
its parts are kept unchanged and in order:

* ``messages``: the content blocks of a reply with thinking; texts and calls are only placeholders.
* ``responses``: the reasoning items of a reply, with placeholders for its texts, which may have a phase, and calls.
* ``gemini``: the thought signature of each text and call.
* ``chat``: the fields of the message and of its tool calls that carry reasoning, the content too if it does.
* ``litellm``: thinking blocks as parsed by litellm, from bodies of other wires.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.text.fields import shallow_json, with_valid_text
from lhaw_record.runners.models.chat_completions import text_of
from lhaw_record.runners.models.costs import is_understood, reported_usage, usage_in
from lhaw_record.runners.models.protocol import ModelReply

Body = dict[str, Any]
_CHAT_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
_ORDER = {"thinking": 0, "redacted_thinking": 0, "reasoning": 0, "text": 1, "call": 2}
_THOUGHTS = re.compile(r"<think(?:ing)?>(.*?)(?:</think(?:ing)?>|\Z)", re.DOTALL)
_SIGNATURE_IN_ID = "__thought__"  # litellm appends the signature of a Gemini call to its id


class ReplyState(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider's reply contains besides text and tool calls. ``usage`` is its usage object."""

    reasoning_text: str | None = None
    provider_state_json: str | None = None
    usage: dict[str, Any] = msgspec.field(default_factory=dict)


def read_state(reply: Body, parsed: Any = None) -> ReplyState:
    """Parse a reply's reasoning, opaque state and usage."""
    text, state = _read(reply)
    if text is None:
        text = getattr(parsed, "reasoning_content", None) or None
    if state is None and not any(key in reply for key in _READERS):
        blocks = getattr(parsed, "thinking_blocks", None)
        state = {"litellm": {"thinking_blocks": list(blocks), "reasoning_content": text}} if blocks else None
    return ReplyState(
        reasoning_text=text,
        provider_state_json=None if state is None else canonical_json(with_valid_text(state)).decode(),
        usage=usage_in(reply),
    )


def with_reasoning(reply: ModelReply, body: Body) -> ModelReply:
    """Add reasoning and detailed usage from the provider's body to a reply that is passed to an agent unchanged.

    The opaque state is not included: the agent decides whether to send it back.
    """
    text, _ = _read(body)
    usage, said = reply.usage, usage_in(body)
    if is_understood(said):
        usage = reported_usage(reply.message, said)
    return msgspec.structs.replace(
        reply,
        reasoning_text=with_valid_text(text),
        usage=msgspec.structs.replace(usage, cost_usd=reply.usage.cost_usd),
    )


def _read(reply: Body) -> tuple[str | None, Body | None]:
    return next((read(reply) for key, read in _READERS.items() if isinstance(reply.get(key), list)), (None, None))


def replayed(message: Message, wire: Body) -> list[Body]:
    """Return an assistant message for litellm with its provider's state.

    A reply with reasoning between its texts and calls becomes several messages, which litellm joins again.
    """
    if message.provider_state_json is None:
        return [wire]
    ((kind, state),) = json.loads(message.provider_state_json).items()
    if kind in ("messages", "responses"):
        field = "thinking_blocks" if kind == "messages" else "reasoning_items"
        return _grouped(wire, state, field)
    if kind == "gemini":
        return _signed(wire, state)
    if kind == "chat":
        calls = [{**call, **extra} for call, extra in zip(wire.get("tool_calls", ()), state["calls"], strict=False)]
        return [{**wire, **state["fields"], **({"tool_calls": calls} if calls else {})}]
    return [{**wire, **{name: value for name, value in state.items() if value is not None}}]


def plain_call_id(call_id: str) -> str:
    """Return a tool call's id without the thought signature that litellm appends to it."""
    return call_id.partition(_SIGNATURE_IN_ID)[0]


def decoded(body: bytes | None) -> Body:
    """Return a provider's body as an object, which is empty if it is none."""
    try:
        reply = msgspec.json.decode(shallow_json(body or b"{}"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return reply if isinstance(reply, dict) else {}


def _read_messages(reply: Body) -> tuple[str | None, Body | None]:
    parts = []
    for block in _objects(reply["content"]):
        if block.get("type") in ("thinking", "redacted_thinking"):
            parts.append(block)
        elif block.get("type") == "text":
            parts.append({"type": "text", "text": block.get("text", "")})
        elif block.get("type") == "tool_use":
            parts.append({"type": "call"})
    return _joined(part.get("thinking") for part in parts), _if_reasoned("messages", parts)


def _read_responses(reply: Body) -> tuple[str | None, Body | None]:
    parts, texts = [], []
    for item in _objects(reply["output"]):
        if item.get("type") == "reasoning":
            parts.append(item)
            shown = item.get("summary") or item.get("content") or ()
            texts += [each.get("text") for each in _objects(shown)]
        elif item.get("type") == "message":
            text = "".join(each.get("text") or "" for each in _objects(item.get("content") or ()))
            phase = {"phase": item["phase"]} if item.get("phase") else {}
            parts.append({"type": "text", "text": text, **phase})
        elif item.get("type") == "function_call":
            parts.append({"type": "call"})
    return _joined(texts), _if_reasoned("responses", parts)


def _read_gemini(reply: Body) -> tuple[str | None, Body | None]:
    candidate = next(_objects(reply["candidates"]), {})
    parts = list(_objects((candidate.get("content") or {}).get("parts") or ()))
    thoughts = _joined(part.get("text") for part in parts if part.get("thought"))
    marks = []
    for part in parts:
        mark = {"signature": part["thoughtSignature"]} if "thoughtSignature" in part else {}
        if "functionCall" in part:
            marks.append({"type": "call", **mark})
        elif "text" in part and not part.get("thought"):
            marks.append({"type": "text", "text": part["text"], **mark})
    return thoughts, {"gemini": marks} if any("signature" in mark for mark in marks) else None


def _read_chat(reply: Body) -> tuple[str | None, Body | None]:
    """Parse a chat completion. Servers use different names for reasoning and require the same name back."""
    message = next(_objects(reply["choices"]), {}).get("message")
    if not isinstance(message, dict):
        return None, None
    fields = {name: message[name] for name in _CHAT_FIELDS if message.get(name) is not None}
    calls = [
        {"extra_content": call["extra_content"]} if call.get("extra_content") else {}
        for call in _objects(message.get("tool_calls") or ())
    ]
    text = next((fields[name] for name in _CHAT_FIELDS[:2] if isinstance(fields.get(name), str)), None)
    text = text or _detailed(fields.get("reasoning_details"))
    content = message.get("content")
    if isinstance(content, list) or (isinstance(content, str) and _THOUGHTS.search(content)):
        fields["content"] = content  # litellm and we make plain text of it
        thoughts = _THOUGHTS.findall(content) if isinstance(content, str) else map(_thinking, _objects(content))
        text = text or _joined(thoughts)
    return text or None, {"chat": {"fields": fields, "calls": calls}} if fields or any(calls) else None


def _thinking(part: Body) -> str:
    """Return the reasoning of a content part: Mistral's is a list of texts (docs.mistral.ai/capabilities/reasoning)."""
    return text_of(part.get("thinking"), "") if part.get("type") == "thinking" else ""


def _detailed(details: Any) -> str:
    """Return the text of OpenRouter's ``reasoning_details``, joining stream pieces that have the same index."""
    pieces: dict[Any, str] = {}
    for place, detail in enumerate(_objects(details)):
        said = detail.get("text") or detail.get("summary")
        if isinstance(said, str):
            key = detail.get("index", f"piece {place}")
            pieces[key] = pieces.get(key, "") + said
    return "\n\n".join(pieces.values())


_READERS: Mapping[str, Callable[[Body], tuple[str | None, Body | None]]] = {
    "content": _read_messages,
    "output": _read_responses,
    "candidates": _read_gemini,
    "choices": _read_chat,
}


def _grouped(wire: Body, parts: Sequence[Body], field: str) -> list[Body]:
    """Return messages of the form reasoning, text, calls, which together preserve the order of the reply's parts."""
    calls = iter(wire.get("tool_calls", ()))
    messages: list[Body] = []
    latest = len(_ORDER)
    for part in parts:
        order = _ORDER[part["type"]]
        if order < latest or order == _ORDER["text"] == latest:
            messages.append({"role": "assistant", "content": None})
        latest = order
        if order == _ORDER["text"]:
            messages[-1] |= {"content": part["text"], **{name: part[name] for name in ("phase",) if name in part}}
        elif order == _ORDER["call"]:
            messages[-1].setdefault("tool_calls", []).append(next(calls))
        else:
            messages[-1].setdefault(field, []).append(part)
    return messages


def _signed(wire: Body, marks: Sequence[Body]) -> list[Body]:
    """Return messages with Gemini's signatures on their texts and calls."""
    calls = iter(wire.get("tool_calls", ()))
    messages: list[Body] = []
    latest = None
    for mark in marks:
        signature = mark.get("signature")
        if mark["type"] == "text":
            messages.append({"role": "assistant", "content": mark["text"]})
            if signature:
                messages[-1]["provider_specific_fields"] = {"thought_signatures": [signature]}
        else:
            if latest is None:
                messages.append({"role": "assistant", "content": None})
            fields = {"provider_specific_fields": {"thought_signature": signature}} if signature else {}
            messages[-1].setdefault("tool_calls", []).append({**next(calls), **fields})
        latest = mark["type"]
    return messages


def _if_reasoned(kind: str, parts: list[Body]) -> Body | None:
    return {kind: parts} if any(_ORDER[part["type"]] == 0 or "phase" in part for part in parts) else None


def _joined(texts: Iterable[Any]) -> str | None:
    return "\n\n".join(text for text in texts if isinstance(text, str) and text) or None


def _objects(values: Any) -> Iterator[Body]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list | tuple) else iter(())
