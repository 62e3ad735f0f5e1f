"""Compares messages whose bytes may differ, because agents rewrite their history between calls.

The wires already drop what never matters: cache marks, item ids, and whether a content is a string or parts. This
module ignores the remaining differences: space around texts, arguments that were parsed and written again, and a first
system text that contains a new value in each call.
"""

from collections.abc import Sequence

from lhaw_record.runners.base.conversation.actions import tool_action
from lhaw_record.runners.base.conversation.messages import Message, ToolCall


def is_same(left: Message, right: Message) -> bool:
    """Return whether two messages are equal apart from formatting."""
    if left is right:
        return True
    if left.role != right.role or left.tool_call_id != right.tool_call_id:
        return False
    if len(left.tool_calls) != len(right.tool_calls) or left.content.strip() != right.content.strip():
        return False
    return all(_is_same_call(one, other) for one, other in zip(left.tool_calls, right.tool_calls, strict=True))


def is_prefix(before: Sequence[Message], after: Sequence[Message]) -> bool:
    """Return whether the second conversation begins with the entire first one."""
    return len(before) <= len(after) and all(map(is_same, before, after))


def steady_system(messages: Sequence[Message], before: Sequence[Message]) -> tuple[list[Message], str | None]:
    """Restore the first system text of the previous call if it is the only one of several that has changed.

    Some agents put a hash of the request into this text. Without this step, no two of their calls would share a prefix.
    """
    systems = _leading_systems(messages)
    has_changed = (
        systems > 1
        and systems == _leading_systems(before)
        and not is_same(messages[0], before[0])
        and all(map(is_same, messages[1:systems], before[1:systems]))
    )
    if not has_changed:
        return list(messages), None
    return [before[0], *messages[1:]], messages[0].content


def _leading_systems(messages: Sequence[Message]) -> int:
    return next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))


def _is_same_call(left: ToolCall, right: ToolCall) -> bool:
    if (left.call_id, left.name) != (right.call_id, right.name):
        return False
    if left.arguments_json == right.arguments_json:
        return True
    one, other = tool_action(left), tool_action(right)
    return one.kind == "tool" and other.kind == "tool" and one.arguments_json == other.arguments_json
