"""Definition of an action: one tool call in a reply, or one reply without a tool call.

The native loop, the gateway and the imports all count actions with this module, so their numbers can be compared.
Actions are numbered from 1. Each call of a parallel batch is one action, and so is a call with malformed arguments. A
reply with both text and tool calls counts only its calls. An empty reply is one action. System, user and tool messages
are not actions.

docs/metrics.md, section 1, defines the metrics that are computed from actions.
"""

from typing import Any

import msgspec

from lhaw_record.recorder.events import ActionFinished, ActionStarted
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.interaction import ActionKind
from lhaw_record.runners.base.conversation.messages import Message, ToolCall

MOST_LEVELS = 100
"""How deep arguments may nest: a choice; real ones have a dozen levels. How deep Python can decode is not fixed."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An action that has not been numbered yet.

    ``arguments`` is None if the call's arguments are not a JSON object (kind ``malformed``). ``arguments_json`` is
    canonical JSON, or the raw text of a malformed call.
    """

    kind: ActionKind
    name: str
    arguments: dict[str, Any] | None
    arguments_json: str
    call_id: str | None = None

    def started(self, index: int, model_call_id: str | None) -> ActionStarted:
        """Return the event that starts the action. ``model_call_id`` is None if the model call is unknown."""
        return ActionStarted(
            action_index=index,
            kind=self.kind,
            name=self.name,
            arguments_json=self.arguments_json,
            model_call_id=model_call_id,
            call_id=self.call_id,
        )


TEXT_ACTION = Action(kind="text", name="message", arguments={}, arguments_json="{}")
"""The action recorded for a reply without a tool call."""


def actions_of(reply: Message) -> tuple[Action, ...]:
    """Return the actions in a reply, in order. There is always at least one."""
    return tuple(map(tool_action, reply.tool_calls)) or (TEXT_ACTION,)


def action_count_of(reply: Message) -> int:
    """Return how many actions a reply counts as."""
    return len(reply.tool_calls) or 1


def tool_action(call: ToolCall) -> Action:
    arguments = decoded_arguments(call.arguments_json)
    return Action(
        kind="malformed" if arguments is None else "tool",
        name=call.name,
        arguments=arguments,
        arguments_json=call.arguments_json if arguments is None else canonical_json(arguments).decode(),
        call_id=call.call_id or None,
    )


def decoded_arguments(arguments_json: str) -> dict[str, Any] | None:
    """Decode a call's arguments. Returns None if they are not a JSON object, or one that nests too deep.

    An empty string means no arguments.
    """
    try:
        arguments = msgspec.json.decode(arguments_json or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    level: list[Any] = [arguments] if isinstance(arguments, dict) else []
    for _ in range(MOST_LEVELS):
        if not level:
            break
        level = [v for it in level for v in (it.values() if isinstance(it, dict) else it) if isinstance(v, dict | list)]
    return arguments if isinstance(arguments, dict) and not level else None


def finished_text(index: int) -> ActionFinished:
    """Return the event that ends a text action. Nothing is executed, so its result is empty and it takes 0 ms."""
    return ActionFinished(action_index=index, is_error=False, result="", duration_ms=0.0)
