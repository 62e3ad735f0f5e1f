"""Prints the requests to models in one attempt of a trial, and their replies: a line of JSON each, in full."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from lhaw_record.recorder.cli.output import say
from lhaw_record.recorder.events import AnyEvent, ModelCalled, ModelFailed, ModelResponded
from lhaw_record.runners.base.conversation.deltas import rebuild_requests, reply_message
from lhaw_record.runners.base.conversation.messages import to_wire
from lhaw_record.runners.cli.attempt_text import events_of, stream_of

_REPLY_FACTS = ("finish_reason", "served_model", "latency_ms", "wire")
_USAGE_FACTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
_FAILURE_FACTS = ("error_kind", "message", "http_status", "is_retried", "latency_ms", "wire")


def print_requests(root: Path, prefix: str, out: TextIO) -> int:
    """Print every request of one attempt with its reply. Return 1 if a conversation cannot be rebuilt, else 0."""
    events = events_of(root, stream_of(root, prefix))
    try:
        lines = list(_lines(events))
    except ValueError as error:
        say(f"the requests cannot be rebuilt: {error}")
        return 1
    out.writelines(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    return 0


def _lines(events: Sequence[AnyEvent]) -> Iterator[dict[str, Any]]:
    requests = rebuild_requests(events)
    replies = {event.call_id: event for event in events if isinstance(event, ModelResponded)}
    failures = {event.call_id: event for event in events if isinstance(event, ModelFailed)}
    tools: dict[str, str] = {}  # by thread: recorded in its first call, and whenever they change
    for event in events:
        if not isinstance(event, ModelCalled):
            continue
        tools[event.thread_id] = event.tools_json or tools.get(event.thread_id, "null")
        reply, failure = replies.get(event.call_id), failures.get(event.call_id)
        yield {
            **{name: getattr(event, name) for name in ("call_id", "role", "thread_id", "call_kind", "model")},
            "parameters": json.loads(event.parameters_json or "null"),
            "tools": json.loads(tools[event.thread_id]),
            "messages": [to_wire(message) for message in requests[event.call_id]],
            "failure": failure and _facts(failure, _FAILURE_FACTS),
            "reply": None
            if reply is None
            else {
                "message": to_wire(reply_message(reply)),
                **_facts(reply, _REPLY_FACTS),
                **_facts(reply.usage, _USAGE_FACTS),
            },
        }


def _facts(event: msgspec.Struct, names: Sequence[str]) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(event, name)) for name in names}
