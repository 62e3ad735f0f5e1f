"""To which tool call of the model does a question belong? Clients tell it under many names, or not at all."""

from collections.abc import Collection, Sequence

import msgspec

from runners.gateway.session import PendingCall
from runners.users.asked import Asked


def calls_like(asked: Asked, pending: Sequence[PendingCall], names: Collection[str]) -> list[PendingCall]:
    """Return the pending calls that a question can be: the one with its id, else those with its words.

    Args:
        asked: The question.
        pending: The main thread's actions that are being executed.
        names: What the tool is called here; the model may see more before it, a server's name above all.
    """
    if asked.call_id is not None:
        return [call for call in pending if call.call_id == asked.call_id]
    words = _words(asked.question, asked.context)
    return [call for call in _named(pending, names) if _words_of(call) == words]


def action_around(pending: Sequence[PendingCall], names: Collection[str], taken: Collection[str]) -> int | None:
    """Return the action in which a question was asked that is no call: one of a sub-agent, a program, or a text.

    Args:
        pending: The main thread's actions that are being executed.
        names: What the tool is called here.
        taken: The ids of calls that belong to other questions.

    Returns:
        The number of the only free call of the tool, else of the only free action; None where that is not known.
    """
    free = [call for call in pending if call.call_id not in taken]
    for candidates in (_named(free, names), free):
        if len(candidates) == 1:
            return candidates[0].action_index
    return None


def _named(pending: Sequence[PendingCall], names: Collection[str]) -> list[PendingCall]:
    return [call for call in pending if call.name.endswith(tuple(names))]


def _words_of(call: PendingCall) -> tuple[str, str] | None:
    try:
        arguments = msgspec.json.decode(call.arguments_json or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    if not isinstance(arguments, dict):
        return None
    question, context = arguments.get("question"), arguments.get("context") or ""
    return _words(question, context) if isinstance(question, str) and isinstance(context, str) else None


def _words(question: str, context: str) -> tuple[str, str]:
    return question.strip(), context.strip()
