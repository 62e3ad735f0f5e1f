"""What happened in a trial, as events: from the turns of a conversation, or from a bare list of tool calls.

The rules of counting are those of our own agent: every tool call of a turn is an action, a turn of text alone is one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from recorder.canonical import canonical_json
from recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    ModelCalled,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    RepliedToolCall,
)
from recorder.events.action import ActionKind
from runners.conversation import Message, new_messages_json
from runners.imports.facts import UNKNOWN
from runners.imports.turns import Outcome, Turn
from runners.models.history import History

ASK_TOOL = "ask_user"
_NOTHING = Outcome(text="", is_error=False, duration_ms=0.0)
"""What comes back from a turn of text, as our own agent records it."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a source that has no conversation; ``arguments`` is an object, or raw text where malformed.

    ``outcome`` None: the source does not tell what came back.
    """

    name: str
    arguments: Any
    outcome: Outcome | None
    is_text: bool = False


def course_of_turns(
    turns: Iterable[Turn], *, model: str, has_channel: bool, simulator: str = UNKNOWN
) -> tuple[AnyEvent, ...]:
    """Return the events of some turns: model calls as deltas, actions with their results, questions.

    Args:
        turns: In order.
        model: The model's name.
        has_channel: Whether the condition lets the agent ask; only then a call of ``ask_user`` is a question.
        simulator: Who answered.
    """
    events: list[AnyEvent] = []
    history, parent, results = History(), None, dict[str, tuple[int, str]]()
    action = 0
    for number, turn in enumerate(turns, 1):
        request = [_with_action(message, results) for message in turn.request]
        shared_count, asked = history.followed_by(request)
        call_id = f"m{number}"
        events += [
            ModelCalled(
                call_id=call_id,
                role="agent",
                thread_id="main",
                call_kind="main",
                model=model,
                parameters_json=None,
                request_digest=asked.digest,
                shared_count=shared_count,
                message_count=len(request),
                new_messages_json=new_messages_json(request, shared_count),
                parent_call_id=parent,
                tools_json=turn.tools_json,
            ),
            _responded(turn, call_id),
        ]
        history, parent = asked.extended([turn.reply]), call_id
        for call, outcome in zip(turn.reply.tool_calls, turn.outcomes, strict=True):
            action += 1
            kind, arguments_json = _arguments(call.arguments_json)
            if outcome is not None:
                results[call.call_id] = (action, outcome.text)
            started = _started(action, kind, call.name, arguments_json, call_id, call.call_id or None)
            events += _acted(started, outcome, has_channel=has_channel, simulator=simulator)
        if not turn.reply.tool_calls and turn.is_text_action:
            action += 1
            events += _acted(
                _started(action, "text", "message", "{}", call_id, None),
                _NOTHING,
                has_channel=False,
                simulator=simulator,
            )
    return tuple(events)


def course_of_calls(calls: Iterable[Call], *, has_channel: bool, simulator: str = UNKNOWN) -> tuple[AnyEvent, ...]:
    """Return the events of a bare list of actions; there are no model calls to name."""
    events: list[AnyEvent] = []
    for action, call in enumerate(calls, 1):
        outcome = _NOTHING if call.is_text else call.outcome
        if call.is_text:
            started = _started(action, "text", "message", "{}", None, None)
        else:
            given = call.arguments
            text = given if isinstance(given, str) else canonical_json({} if given is None else given).decode()
            kind, arguments_json = _arguments(text)
            started = _started(action, kind, call.name, arguments_json, None, None)
        events += _acted(started, outcome, has_channel=has_channel, simulator=simulator)
    return tuple(events)


def action_count(course: Iterable[AnyEvent]) -> int:
    """Return how many actions a course has."""
    return sum(isinstance(event, ActionStarted) for event in course)


def _with_action(message: Message, results: Mapping[str, tuple[int, str]]) -> Message:
    """A tool message names the action whose recorded result it repeats, so that the text is stored once."""
    action, text = results.get(message.tool_call_id or "", (None, ""))
    if message.role != "tool" or action is None or text != message.content:
        return message
    return msgspec.structs.replace(message, result_of_action=action)


def _responded(turn: Turn, call_id: str) -> ModelResponded:
    return ModelResponded(
        call_id=call_id,
        role="agent",
        text=turn.reply.content,
        finish_reason=turn.finish_reason,
        latency_ms=turn.latency_ms,
        tool_calls=tuple(
            RepliedToolCall(call_id=call.call_id, name=call.name, arguments_json=call.arguments_json)
            for call in turn.reply.tool_calls
        ),
        input_tokens=turn.input_tokens,
        output_tokens=turn.output_tokens,
        cached_input_tokens=turn.cached_input_tokens,
        cost_usd=turn.cost_usd,
    )


def _arguments(text: str) -> tuple[ActionKind, str]:
    """Canonical JSON of an object, or the raw text where it is none; no text at all means no arguments."""
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return "malformed", text
    return ("tool", canonical_json(value).decode()) if isinstance(value, dict) else ("malformed", text)


def _started(
    action: int, kind: ActionKind, name: str, arguments_json: str, model_call_id: str | None, call_id: str | None
) -> ActionStarted:
    return ActionStarted(
        action_index=action,
        kind=kind,
        name=name,
        arguments_json=arguments_json,
        model_call_id=model_call_id,
        call_id=call_id,
    )


def _acted(started: ActionStarted, outcome: Outcome | None, *, has_channel: bool, simulator: str) -> list[AnyEvent]:
    """What an action is in events; that it ended is known also where nothing is known of what came back."""
    finished = ActionFinished(
        action_index=started.action_index,
        is_error=outcome.is_error if outcome else None,
        result=outcome.text if outcome else None,
        duration_ms=outcome.duration_ms if outcome else None,
    )
    is_question = has_channel and started.kind == "tool" and is_ask_tool(started.name)
    if not is_question:
        return [started, finished]
    given = msgspec.json.decode(started.arguments_json)
    question_id = f"q{started.action_index}"
    asked = QuestionAsked(
        question_id=question_id,
        question=str(given.get("question", "")),
        context=str(given.get("context", "")),
        call_id=started.call_id,
        action_index=started.action_index,
    )
    answered = QuestionAnswered(
        question_id=question_id,
        answer=finished.result,
        simulator=simulator,
        latency_ms=finished.duration_ms,
        revealed=None,
    )
    return [started, asked, answered, finished]


def is_ask_tool(name: str) -> bool:
    """Return whether a tool is ``ask_user``, by itself or behind the name of its server."""
    return name == ASK_TOOL or name.endswith(f"_{ASK_TOOL}")
