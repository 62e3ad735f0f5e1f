"""Messages of a conversation, their canonical form, and the check for where a user turn may be inserted.

A message's canonical form is a dictionary in the shape of OpenAI's chat messages. Digests and recorded deltas are
computed from it. All functions are pure and shared by the native loop and the gateway.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json, short_digest
from lhaw_record.recorder.events.interaction import SandboxLimit


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call in an assistant turn. ``arguments_json`` is exactly what the model wrote."""

    call_id: str
    name: str
    arguments_json: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. Only assistant messages have ``tool_calls``, and only tool messages have a ``tool_call_id``.

    ``result_of_action`` is the number of the action whose recorded result is this message's content, so that the text
    need not be recorded twice. The model does not see it.

    ``provider_state_json`` is canonical JSON with data that the provider requires back unchanged with an assistant
    message: signed thinking, reasoning items, thought signatures (``runners/models/provider_state.py``).
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    result_of_action: int | None = None
    provider_state_json: str | None = None


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model sees it. ``input_schema`` is a JSON Schema object."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call. ``server`` and ``server_pid`` are set if an MCP server executed the call.

    ``reference_result_sha256`` and ``is_same_as_reference`` are set if the same call occurs in a recorded reference.
    ``limit_met`` is set if a sandbox limit stopped all or part of the call; ``limits_watched`` lists detectable limits.
    """

    text: str
    is_error: bool = False
    server: str | None = None
    server_pid: int | None = None
    reference_result_sha256: str | None = None
    is_same_as_reference: bool | None = None
    limit_met: SandboxLimit | None = None
    limits_watched: tuple[SandboxLimit, ...] | None = None


class Toolbox(Protocol):
    """The tools of one trial: the environment's and, if the condition includes it, ``ask_user``."""

    tools: tuple[ToolDefinition, ...]

    async def call(self, name: str, arguments: dict[str, Any], call_id: str | None) -> ToolResult:
        """Execute a tool. Wrong arguments and unknown tools give error results. Raises BoundaryError."""
        ...

    async def next_step(self) -> str | None:
        """Return the next request of a multi-step task, or None after the last step. Raises BoundaryError."""
        ...


def to_wire(message: Message) -> dict[str, Any]:
    """Return the message in canonical form: a chat completions message plus the key ``provider_state``."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_json},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.provider_state_json is not None:
        wire["provider_state"] = json.loads(message.provider_state_json)
    return wire


def from_wire(wire: dict[str, Any]) -> Message:
    """Parse a message from its canonical form. Inverse of :func:`to_wire`."""
    state = wire.get("provider_state")
    calls = tuple(
        ToolCall(
            call_id=call["id"], name=call["function"]["name"], arguments_json=call["function"].get("arguments") or ""
        )
        for call in wire.get("tool_calls") or ()
    )
    return Message(
        role=wire["role"],
        content=wire.get("content") or "",
        tool_calls=calls,
        tool_call_id=wire.get("tool_call_id"),
        provider_state_json=None if state is None else canonical_json(state).decode(),
    )


def tool_to_wire(tool: ToolDefinition) -> dict[str, Any]:
    """Return the tool as an entry for the ``tools`` list of a request."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
    }


def conversation_digest(messages: Sequence[Message]) -> str:
    """Return the first 128 bits of the SHA-256 of the message list in canonical JSON."""
    return short_digest([to_wire(message) for message in messages])


def shared_prefix_length(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return the number of leading messages that two conversations share."""
    length = 0
    for left, right in zip(before, after, strict=False):
        if left is not right and left != right:  # comparing a long conversation by value takes 50 µs
            break
        length += 1
    return length


def new_messages_json(messages: Sequence[Message], shared_count: int) -> str:
    """Return the messages after the first ``shared_count`` as the canonical JSON array that is recorded.

    A message that carries an action's result is recorded with ``result_of_action`` instead of its content.
    """
    return canonical_json([_to_recorded(message) for message in messages[shared_count:]]).decode()


def rebuild(parent: Sequence[Message], shared_count: int, added_json: str, results: Mapping[int, str]) -> list[Message]:
    """Rebuild a request's messages from its parent's messages and its recorded delta."""
    return [*parent[:shared_count], *(_from_recorded(wire, results) for wire in json.loads(added_json))]


def _to_recorded(message: Message) -> dict[str, Any]:
    wire = to_wire(message)
    if message.result_of_action is not None:
        del wire["content"]
        wire["result_of_action"] = message.result_of_action
    return wire


def _from_recorded(wire: dict[str, Any], results: Mapping[int, str]) -> Message:
    action = wire.get("result_of_action")
    if action is None:
        return from_wire(wire)
    if action not in results:
        raise ValueError(f"a message is the result of action {action}, which was not recorded before it")
    return msgspec.structs.replace(from_wire({**wire, "content": results[action]}), result_of_action=action)


def is_clean_boundary(messages: Sequence[Message]) -> bool:
    """Return whether a user turn may be appended, which requires that every tool call so far has its result."""
    open_calls: set[str] = set()
    for message in messages:
        open_calls |= {call.call_id for call in message.tool_calls}
        if message.tool_call_id is not None:
            open_calls.discard(message.tool_call_id)
    return not open_calls


def insert_user_turn(messages: Sequence[Message], text: str) -> list[Message]:
    """Return the conversation with a user turn appended."""
    if not is_clean_boundary(messages):
        raise ValueError("a tool call still lacks its result; insert the message after the whole batch")
    return [*messages, Message(role="user", content=text)]
