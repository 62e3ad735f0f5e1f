"""Answers to calls that are not the work itself: titles, probes, and summaries from which the work can go on."""

from collections.abc import Sequence

from recorder.canonical import canonical_json
from runners.conversation import Message
from runners.models.scripted.foreign.offered import is_question

_TITLE = "A task in the work directory"


def side_text(messages: Sequence[Message]) -> str:
    """Return a short text that does no harm; where something was done already, a summary with the task in it."""
    users = [message for message in messages if message.role == "user"]
    if any(message.role == "assistant" for message in messages) and users:
        return _summary(messages, users)
    asked = "\n".join(message.content for message in (*messages[:1], *messages[-1:]))
    return canonical_json({"isNewTopic": False, "title": _TITLE}).decode() if "json" in asked.lower() else _TITLE


def _summary(messages: Sequence[Message], users: Sequence[Message]) -> str:
    """The task, what the user answered, and what they said; the last message asks for the summary."""
    asked = {call.call_id for message in messages for call in message.tool_calls if is_question(call.name)}
    answers = [message.content for message in messages if message.tool_call_id in asked]
    said = [message.content for message in (users[:-1] or users)]
    return "\n\n".join(["Summary of the work so far.", *said, *answers])
