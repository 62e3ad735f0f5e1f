"""Turns a foreign trajectory into events, in the same way for all formats.

A format describes a trajectory as turns of a conversation or, if there is no conversation, as single calls
(:func:`call_turn`). Actions are counted as in our own trials.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    ModelCalled,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    Reasoning,
    RepliedToolCall,
    Usage,
)
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.actions import actions_of, finished_text
from lhaw_record.runners.base.conversation.deltas import History
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, new_messages_json
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import content_text
from lhaw_record.runners.imports.foreign_trial import UNKNOWN

ASK_TOOL = "ask_user"
MAIN_THREAD = "main"


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool call. ``is_error`` is None if the source does not say."""

    text: str
    is_error: bool | None = None
    duration_ms: float | None = None


class ForeignTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One call to the agent's model: the request, the reply, and the outcomes of the reply's tool calls in order.

    ``is_text_action`` says whether a reply without tool calls counts as an action, because one source lists its actions
    itself. ``is_model_call`` is false if the agent acted without asking its model. ``model`` is set if it differs from
    the trial's. ``sub_agent`` names the sub-agent that took the turn, whose calls are kept but do not count as actions
    of the trial.
    """

    request: tuple[Message, ...]
    reply: Message
    outcomes: tuple[CallResult | None, ...]
    finish_reason: str | None = None
    latency_ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cost_usd: float | None = None
    tools_json: str | None = None
    is_text_action: bool = True
    is_model_call: bool = True
    model: str | None = None
    sub_agent: str | None = None
    reasoning: Reasoning | None = None


def call_turn(name: str, arguments: Any, outcome: CallResult | None, *, is_text: bool = False) -> ForeignTurn:
    """Return one action of a source without a conversation. ``arguments`` is an object, or raw text if malformed."""
    text = arguments if isinstance(arguments, str) else canonical_json({} if arguments is None else arguments).decode()
    calls = () if is_text else (ToolCall(call_id="", name=name, arguments_json=text),)
    reply = Message(role="assistant", content="", tool_calls=calls)
    return ForeignTurn(request=(), reply=reply, outcomes=() if is_text else (outcome,), is_model_call=False)


def message_of(wire: Mapping[str, Any]) -> Message:
    """Convert a chat message from a foreign file, joining content parts and converting arguments to text."""
    role = wire.get("role")
    if role not in ("system", "user", "assistant", "tool"):
        raise ValueError(f"a message has the role {role!r}")
    return Message(
        role=role,
        content=content_text(wire.get("content")),
        tool_calls=tuple(map(_tool_call, wire.get("tool_calls") or ())),
        tool_call_id=str(wire["tool_call_id"]) if role == "tool" and wire.get("tool_call_id") is not None else None,
    )


def turns_of(messages: Sequence[Message], errors: Mapping[str, bool | None] | None = None) -> list[ForeignTurn]:
    """Return the turns of a conversation; the tool messages after a turn are the outcomes of its calls."""
    errors = errors or {}
    turns = []
    for location, message in enumerate(messages):
        if message.role == "assistant":
            results = _results_after(messages, location)
            outcomes = tuple(
                CallResult(text=results[call.call_id], is_error=errors.get(call.call_id))
                if call.call_id in results
                else None
                for call in message.tool_calls
            )
            turns.append(ForeignTurn(request=tuple(messages[:location]), reply=message, outcomes=outcomes))
    return turns


def events_of_turns(
    turns: Iterable[ForeignTurn], *, model: str, has_channel: bool, simulator: str = UNKNOWN
) -> tuple[AnyEvent, ...]:
    """Return the events of a conversation: model calls as deltas, actions with their results, and questions."""
    events: list[AnyEvent] = []
    threads: dict[str, tuple[History, str | None]] = {}
    results: dict[str, tuple[int, str]] = {}
    action_count = 0
    for number, turn in enumerate(turns, 1):
        call_id = f"m{number}" if turn.is_model_call else None
        if call_id is not None:
            thread = _thread_of(turn)
            history, parent = threads.get(thread, (History(), None))
            request = [_naming_its_action(message, results) for message in turn.request]
            shared_count, request_history = history.followed_by(request)
            called = ModelCalled(
                call_id=call_id,
                role="agent",
                thread_id=thread,
                call_kind="sub_agent" if turn.sub_agent else "main",
                model=turn.model or model,
                parameters_json=None,
                request_digest=request_history.digest,
                shared_count=shared_count,
                message_count=len(request),
                new_messages_json=new_messages_json(request, shared_count),
                parent_call_id=parent,
                tools_json=turn.tools_json,
            )
            events += [called, _responded(turn, call_id)]
            threads[thread] = request_history.extended([turn.reply]), call_id
        if turn.sub_agent or not (turn.reply.tool_calls or turn.is_text_action):
            continue
        for action, outcome in zip(actions_of(turn.reply), turn.outcomes or (None,), strict=True):
            action_count += 1
            if outcome is not None:
                results[action.call_id or ""] = (action_count, outcome.text)
            started = action.started(action_count, call_id)
            events += _action_events(started, outcome, has_channel=has_channel, simulator=simulator)
    return tuple(events)


def trajectory_events(turns: Sequence[ForeignTurn], *, model: str, condition: str) -> tuple[AnyEvent, ...]:
    """Return the events of an agent's turns under a condition."""
    calls = [call for turn in turns if turn.sub_agent is None for call in turn.reply.tool_calls]
    has_channel = condition.endswith("ask_user")
    if not has_channel and any(is_ask_tool(call.name) for call in calls):
        raise ValueError("the agent called ask_user; say --condition ask_user, and --variant if the prompt is one")
    return events_of_turns(turns, model=model, has_channel=has_channel)


def result_messages(reply: Message, outcomes: Iterable[CallResult | None]) -> list[Message]:
    """Return the messages that show the results of a reply's calls in later requests."""
    return [
        Message(role="tool", content=outcome.text, tool_call_id=call.call_id)
        for call, outcome in zip(reply.tool_calls, outcomes, strict=True)
        if outcome is not None
    ]


def action_count(events: Iterable[AnyEvent]) -> int:
    """Return the number of actions in a trajectory."""
    return sum(isinstance(event, ActionStarted) for event in events)


def is_ask_tool(name: str) -> bool:
    """Return whether a tool is ``ask_user``, alone or prefixed with the name of a server."""
    return name == ASK_TOOL or name.endswith(f"_{ASK_TOOL}")


def _tool_call(wire: Mapping[str, Any]) -> ToolCall:
    """Read a tool call in OpenAI's form, or in inspect_ai's form, where ``function`` is the name."""
    function = wire.get("function")
    inner = function if isinstance(function, Mapping) else {"name": function, "arguments": wire.get("arguments")}
    name, arguments = inner.get("name"), inner.get("arguments")
    if not isinstance(name, str):
        raise ValueError("a tool call has no name")  # noqa: TRY004 - one error class
    text = arguments if isinstance(arguments, str) else canonical_json(arguments or {}).decode()
    return ToolCall(call_id=str(wire.get("id") or ""), name=name, arguments_json=text)


def _results_after(messages: Sequence[Message], location: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for message in messages[location + 1 :]:
        if message.role == "assistant":
            break
        if message.role == "tool" and message.tool_call_id is not None:
            found[message.tool_call_id] = message.content
    return found


def _naming_its_action(message: Message, results: Mapping[str, tuple[int, str]]) -> Message:
    """Link a tool message to the action whose recorded result it repeats, so that the text is stored once."""
    action, text = results.get(message.tool_call_id or "", (None, ""))
    if message.role != "tool" or action is None or text != message.content:
        return message
    return msgspec.structs.replace(message, result_of_action=action)


def _thread_of(turn: ForeignTurn) -> str:
    """Return the thread of a turn: the sub-agent's name, which the main thread cannot have."""
    if turn.sub_agent == MAIN_THREAD:
        return f"sub_agent-{MAIN_THREAD}"
    return turn.sub_agent or MAIN_THREAD


def _responded(turn: ForeignTurn, call_id: str) -> ModelResponded:
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
        usage=Usage(
            input_tokens=turn.input_tokens,
            output_tokens=turn.output_tokens,
            cached_input_tokens=turn.cached_input_tokens,
            cost_usd=turn.cost_usd,
        ),
        reasoning=turn.reasoning,
    )


def _action_events(
    started: ActionStarted, outcome: CallResult | None, *, has_channel: bool, simulator: str
) -> list[AnyEvent]:
    """Return the events of an action, which counts as ended even if its result is unknown."""
    if started.kind == "text":
        return [started, finished_text(started.action_index)]
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
