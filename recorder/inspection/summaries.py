"""One-line summaries of events."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Fields = Mapping[str, Any]


def summary(event_type: str, event: Fields, longest: int) -> str:
    """Return a summary of an event in one line of at most ``longest`` characters."""
    text = " ".join(_WORDS.get(event_type, _fields)(event).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _action_started(event: Fields) -> str:
    said = "" if event["kind"] == "text" else _arguments(event["arguments_json"])
    name = "a reply without a tool call" if event["kind"] == "text" else event["name"]
    return f"{event['action_index']}: {name} {said}"


def _action_finished(event: Fields) -> str:
    result = "(no result)" if event["result"] is None else event["result"] or "(empty)"
    return f"{event['action_index']}: {'error: ' if event['is_error'] else ''}{result}"


def _injected(event: Fields) -> str:
    if event["status"] == "skipped":
        return f"skipped: {event['reason']}"
    return f"after action {event['after_action']}: {event['message'] or ''}"


def _arguments(arguments_json: str) -> str:
    """Return the arguments of a call as ``name=value``, a single argument without its name, and invalid JSON as is."""
    try:
        arguments = json.loads(arguments_json)
    except (ValueError, RecursionError):
        return arguments_json
    if not isinstance(arguments, dict):
        return arguments_json
    texts = {key: it if isinstance(it, str) else json.dumps(it, ensure_ascii=False) for key, it in arguments.items()}
    return " ".join(texts.values()) if len(texts) == 1 else ", ".join(f"{key}={it}" for key, it in texts.items())


def _fields(event: Fields) -> str:
    return " ".join(
        f"{name}={value}"
        for name, value in event.items()
        if value not in (None, "", [], ()) and not isinstance(value, dict | msgspec.Struct)
    )


_WORDS: Mapping[str, Callable[[Fields], str]] = {
    "action_started": _action_started,
    "action_finished": _action_finished,
    "question_asked": lambda event: event["question"],
    "question_answered": lambda event: event["answer"] or "(no text)",
    "clarification_injected": _injected,
    "checkpoint_scored": lambda event: f"{event['label']}: {event['score']:g} of {event['total']:g}",
    "model_failed": lambda event: f"{event['error_kind']}: {event['message']}",
}
