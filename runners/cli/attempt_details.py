"""Prints an attempt in detail: its requests to models as JSON, or the report of ``agents test``."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.cli.terminal import visible
from lhaw_record.recorder.events import (
    ActionStarted,
    AnyEvent,
    ArtifactStored,
    CheckpointScored,
    ModelCalled,
    ModelFailed,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
    TrialFlagged,
    TrialStarted,
)
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.conversation.deltas import rebuild_requests, reply_message
from lhaw_record.runners.base.conversation.messages import to_wire
from lhaw_record.runners.cli.attempt_text import Differences, events_of, facts_of, stream_of

_REPLY_FACTS = ("finish_reason", "served_model", "latency_ms", "wire")
_USAGE_FACTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
_FAILURE_FACTS = ("error_kind", "message", "http_status", "is_retried", "latency_ms", "wire")
_SHOWN = 60
_CALLS = ("call", "thread", "kind", "why", "messages", "reply")
_ACTIONS = ("action", "kind", "name", "arguments", "asked_for_by")


def print_requests(root: Path, prefix: str, out: TextIO) -> int:
    """Print every request of one attempt with its reply. Return 1 if a conversation cannot be rebuilt, else 0."""
    events = events_of(root, stream_of(root, prefix))
    differences = Differences()
    try:
        lines = list(_lines(events, differences))
    except ValueError as error:
        say(f"the requests cannot be rebuilt: {error}")
        return 1
    out.writelines(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    for sentence in differences.sentences():
        say(sentence)
    return 1 if differences.changed else 0


def _lines(events: Sequence[AnyEvent], differences: Differences) -> Iterator[dict[str, Any]]:
    requests = rebuild_requests(events, differences)
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


def print_test(store: Store, events: Iterable[AnyEvent], out: TextIO) -> bool:
    """Print a trial of a program. Return whether the trial is valid."""
    events = list(events)
    for event in events:
        if isinstance(event, TrialStarted):
            out.writelines(f"{visible(line, out)}\n" for line in (*facts_of(event), f"program {event.program}"))
    out.write("\nmodel calls, as the gateway saw them\n")
    print_rows(list(_calls(events)), _CALLS, "table", out)
    out.write("\nactions, as they were counted\n")
    print_rows([_action(event) for event in events if isinstance(event, ActionStarted)], _ACTIONS, "table", out)
    questions = sum(isinstance(event, QuestionAsked) for event in events)
    out.write(f"\nasked: {f'yes, {questions} times' if questions else 'no'}\n")
    for event in events:
        if isinstance(event, QuestionAsked):
            asked = f"question {event.question_id}, as action {event.action_index}: {event.question}"
            out.write(f"\n{visible(asked, out)}\n")
        if isinstance(event, QuestionAnswered):
            said = event.answer or (event.response_state if event.response_state != "answered" else "")
            out.write(f"answer: {visible(said, out)}\n")
    for event in events:
        if isinstance(event, ArtifactStored) and event.role == "program_output":
            text = visible(load_blob(store, event.sha256).decode("utf-8", "replace"), out)
            out.write(f"\n--- {event.name}\n{text}{'' if text.endswith(chr(10)) else chr(10)}")
    ends = (TrialFlagged, CheckpointScored, TrialFinished, TrialFailed)
    out.writelines(f"{visible(line, out)}\n" for event in events if isinstance(event, ends) for line in facts_of(event))
    return any(isinstance(event, TrialFinished) for event in events)


def _calls(events: Iterable[AnyEvent]) -> Iterator[dict[str, Any]]:
    events = list(events)
    replies = {event.call_id: _reply(event) for event in events if isinstance(event, ModelResponded | ModelFailed)}
    for event in events:
        if isinstance(event, ModelCalled):
            yield {
                "call": event.call_id,
                "thread": event.thread_id,
                "kind": event.call_kind,
                "why": event.kind_reason,
                "messages": event.message_count,
                "reply": replies.get(event.call_id, "none"),
            }


def _reply(event: ModelResponded | ModelFailed) -> str:
    if isinstance(event, ModelFailed):
        return _cut(f"failed ({event.error_kind}): {event.message}")
    return _cut(" ".join((*(f"[{call.name}]" for call in event.tool_calls), event.text)).strip())


def _action(event: ActionStarted) -> dict[str, Any]:
    return {
        "action": event.action_index,
        "kind": event.kind,
        "name": event.name,
        "arguments": _cut(event.arguments_json),
        "asked_for_by": event.model_call_id,
    }


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
