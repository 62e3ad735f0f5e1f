"""A foreign conversation as turns: what the model saw, what it said, and what its tool calls gave back."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from recorder.canonical import canonical_json
from runners.benchmarks.mcp_atlas.cells import content_text
from runners.conversation import Message, ToolCall


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came back from a tool call; ``is_error`` None where the source does not tell."""

    text: str
    is_error: bool | None = None
    duration_ms: float | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the agent's model: what it saw, what it said, and what its tool calls gave, by their place.

    ``is_text_action`` says whether a turn of text alone counts as an action.
    """

    request: tuple[Message, ...]
    reply: Message
    outcomes: tuple[Outcome | None, ...]
    finish_reason: str | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cost_usd: float | None = None
    tools_json: str | None = None
    is_text_action: bool = True


def message_of(wire: Mapping[str, Any]) -> Message:
    """Return a message of a foreign conversation; parts of a content are joined, arguments become text.

    Raises:
        ValueError: It is no message of a chat.
    """
    role = wire.get("role")
    if role not in ("system", "user", "assistant", "tool"):
        raise ValueError(f"a message has the role {role!r}")
    return Message(
        role=role,
        content=content_text(wire.get("content")),
        tool_calls=tuple(map(_tool_call, wire.get("tool_calls") or ())),
        tool_call_id=str(wire["tool_call_id"]) if role == "tool" and wire.get("tool_call_id") is not None else None,
    )


def _tool_call(wire: Mapping[str, Any]) -> ToolCall:
    """A call in the shape of OpenAI, or with its name in ``function`` as inspect_ai has it."""
    function = wire.get("function")
    inner = function if isinstance(function, Mapping) else {"name": function, "arguments": wire.get("arguments")}
    name, arguments = inner.get("name"), inner.get("arguments")
    if not isinstance(name, str):
        raise ValueError("a tool call has no name")  # noqa: TRY004 - one error class
    text = arguments if isinstance(arguments, str) else canonical_json(arguments or {}).decode()
    return ToolCall(call_id=str(wire.get("id") or ""), name=name, arguments_json=text)


def turns_of(messages: Sequence[Message], errors: Mapping[str, bool | None] | None = None) -> list[Turn]:
    """Return the turns of a conversation; the results of a turn's calls are the tool messages that follow it.

    Args:
        messages: The whole conversation.
        errors: Whether the result of a call is an error, by the call's id; unknown for every other call.
    """
    turns = []
    errors = errors or {}
    for place, message in enumerate(messages):
        if message.role == "assistant":
            results = _results_after(messages, place)
            outcomes = tuple(
                Outcome(text=results[call.call_id], is_error=errors.get(call.call_id))
                if call.call_id in results
                else None
                for call in message.tool_calls
            )
            turns.append(Turn(request=tuple(messages[:place]), reply=message, outcomes=outcomes))
    return turns


def _results_after(messages: Sequence[Message], place: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for message in messages[place + 1 :]:
        if message.role == "assistant":
            break
        if message.role == "tool" and message.tool_call_id is not None:
            found[message.tool_call_id] = message.content
    return found
