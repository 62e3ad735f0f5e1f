"""Where a request is marked for a cache that keeps only what is marked, as Claude's does.

Writing to the cache costs 1.25 times as much as other input, reading a tenth, and an entry lives for five minutes after
its last use. Each turn of an agent repeats all turns before, so a mark pays from the second turn on. A request may have
four marks; a provider finds an entry at a mark, or at most 20 blocks before it.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition

MARK = {"type": "ephemeral"}


@runtime_checkable
class MarksPrompts(Protocol):
    """A model whose provider caches only what is marked."""

    def cache_marks(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> tuple[int, ...]:
        """Return the positions of the messages at whose end a request is marked."""
        ...


def agent_marks(messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> tuple[int, ...]:
    """Return the marks of an agent's request: none without tools, because single questions are not repeated.

    They are the system prompt, which follows the tools and is shared by all trials of an arm; the end of the previous
    request, whose entry would be out of reach behind a long batch of calls; and the end of this one.
    """
    if not tools:
        return ()
    replies = [position for position, message in enumerate(messages) if message.role == "assistant"]
    systems = [position for position, message in enumerate(messages) if message.role == "system"]
    ends = {*systems[-1:], *(position - 1 for position in replies[-1:]), len(messages) - 1}
    return tuple(sorted(end for end in ends if end >= 0 and messages[end].role != "assistant"))


def marked(wire: dict[str, Any]) -> dict[str, Any]:
    """Return a message in the shape of chat completions with a mark at its end."""
    if wire["role"] == "tool" or not wire.get("content"):
        return {**wire, "cache_control": MARK}
    return {**wire, "content": [{"type": "text", "text": wire["content"], "cache_control": MARK}]}
