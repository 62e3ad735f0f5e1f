"""Format ``openhands``: the event list of OpenHands (a trajectory, or the events of a session in one list).

Its evaluations write JSON Lines (``output.jsonl``) with a run's event list as ``history``, and the task's name.

Actions and observations from one model reply share its id. Both report its usage, which counts once.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.base.text.fields import as_number, as_object
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, in_one, known_cost, parsed_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
)
from lhaw_record.runners.imports.formats.openai_messages import first_prompt, usage_fields
from lhaw_record.runners.imports.source_files import decode_json_or_lines
from lhaw_record.runners.imports.trajectory import CallResult, ForeignTurn, result_messages

FORMAT = "openhands"


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return a trial for each run. Its location is the file, with the line if there are several."""
    given = decode_json_or_lines(source)
    is_one = not any(isinstance(each, dict) and "history" in each for each in given)
    runs = [{"history": given}] if is_one else given
    found: list[ParsedFile] = []
    for number, run in enumerate(runs, 1):
        location = source.label if len(runs) == 1 else f"{source.label}:{number}"
        history = run.get("history") if isinstance(run, dict) else None
        if not isinstance(history, list) or not any(isinstance(each, dict) and each.get("action") for each in history):
            raise ImportFailed(f"{location} is no list of events with actions, so it is no trajectory of OpenHands")
        try:
            trajectory, remarks = _trajectory([as_object(each, "an event") for each in history], run.get("instance_id"))
        except ValueError as error:
            raise ImportFailed(f"{location}: {error}") from error
        found.append(parsed_trajectory(location, trajectory, options, known, format_name=FORMAT, remarks=remarks))
    return in_one(found)


def _trajectory(events: Sequence[Mapping[str, Any]], task: str | None) -> tuple[BareTrajectory, list[str]]:
    """Return the run that the events describe, and remarks about events that are not kept."""
    observations = {
        str(each["cause"]): each for each in events if each.get("observation") and each.get("cause") is not None
    }
    replies: dict[str | None, list[Mapping[str, Any]]] = defaultdict(list)
    for each in events:
        if _is_act(each):
            replies[_reply_id(each)].append(each)
    unused: Counter[str] = Counter()
    messages: list[Message] = []
    turns: list[ForeignTurn] = []
    kept: set[str] = set()
    for event in events:
        action, content = event.get("action"), (event.get("args") or {}).get("content")
        if event.get("source") == "agent" and action == "system":
            messages.append(Message(role="system", content=str(content or "")))
        elif event.get("source") == "user" and action == "message":
            messages.append(Message(role="user", content=str(content or "")))
        elif _is_act(event):
            batch = replies[_reply_id(event)] if _reply_id(event) else [event]
            if event is not batch[0]:  # its reply already is a turn
                continue
            turn, results = _turn(batch, tuple(messages), observations)
            kept |= {str(each.get("id")) for each in batch}
            turns.append(turn)
            messages += [turn.reply, *results]
        elif str(event.get("cause")) not in kept:
            unused[str(action or event.get("observation"))] += 1
    if not turns:
        raise ValueError("the agent did nothing: no event of source agent has an action")
    return _run(events, turns, task), [f"{n} events of kind {kind} are not kept" for kind, n in unused.items()]


def _is_act(event: Mapping[str, Any]) -> bool:
    """Return whether an event is an act of the agent; one reply may have several, with other events between them."""
    return event.get("source") == "agent" and bool(event.get("action")) and event.get("action") != "system"


def _run(events: Sequence[Mapping[str, Any]], turns: Sequence[ForeignTurn], task: str | None) -> BareTrajectory:
    started = next((each.get("args") or {} for each in events if each.get("action") == "system"), {})
    finished = next((each.get("args") or {} for each in reversed(events) if each.get("action") == "finish"), None)
    costs = [each["llm_metrics"].get("accumulated_cost") for each in events if each.get("llm_metrics")]
    model = next((model for each in events if (model := _response(each).get("model"))), None)
    version = started.get("openhands_version")
    times = [time for each in events if (time := _time(each)) is not None]
    total = as_number(costs[-1], "accumulated_cost") if costs and costs[-1] is not None else None
    return BareTrajectory(
        prompt=first_prompt(turns),
        agent=str(started.get("agent_class") or FORMAT),
        model=str(model or UNKNOWN),
        program=f"OpenHands {version}" if version else None,
        turns=turns,
        task=task,
        final_answer=None if finished is None else finished.get("final_thought"),
        ended_by=None if finished is None else "submitted",
        duration_ms=(times[-1] - times[0]).total_seconds() * 1000 if times else None,
        cost_usd=known_cost(total, 1),
    )


def _turn(
    batch: Sequence[Mapping[str, Any]],
    request: tuple[Message, ...],
    observations: Mapping[str, Mapping[str, Any]],
) -> tuple[ForeignTurn, list[Message]]:
    """Return the turn of one reply's actions, and the messages that show their results in later requests."""
    response = _response(batch[0])
    choice: Mapping[str, Any] = next(iter(response.get("choices") or ()), {})
    usage: dict[str, Any] = usage_fields(response.get("usage") or {})
    said = (choice.get("message") or {}).get("content")
    args = batch[0].get("args") or {}
    if batch[0].get("action") == "message":
        reply = Message(role="assistant", content=str(said or args.get("content") or ""))
        outcomes: tuple[CallResult | None, ...] = ()
    else:
        calls = tuple(_call(each) for each in batch)
        reply = Message(role="assistant", content=str(said or args.get("thought") or ""), tool_calls=calls)
        outcomes = tuple(_outcome(each, observations.get(str(each.get("id")))) for each in batch)
    turn = ForeignTurn(
        request=request,
        reply=reply,
        outcomes=outcomes,
        finish_reason=choice.get("finish_reason"),
        **usage,
    )
    return turn, result_messages(reply, outcomes)


def _call(event: Mapping[str, Any]) -> ToolCall:
    """Return the call behind an action: as the model wrote it, or else the action itself."""
    metadata = event.get("tool_call_metadata") or {}
    call_id = str(metadata.get("tool_call_id") or f"event-{event.get('id')}")
    for choice in _response(event).get("choices") or ():
        for call in (choice.get("message") or {}).get("tool_calls") or ():
            if call.get("id") == call_id:
                function = call["function"]
                return ToolCall(call_id=call_id, name=function["name"], arguments_json=function["arguments"])
    name = str(metadata.get("function_name") or event["action"])
    return ToolCall(call_id=call_id, name=name, arguments_json=canonical_json(event.get("args") or {}).decode())


def _outcome(action: Mapping[str, Any], observation: Mapping[str, Any] | None) -> CallResult | None:
    """Return an action's result and duration. Only an observation of kind ``error`` counts as an error."""
    if observation is None:
        return None
    began, ended = _time(action), _time(observation)
    return CallResult(
        text=str(observation.get("content") or ""),
        is_error=True if observation["observation"] == "error" else None,
        duration_ms=None if began is None or ended is None else (ended - began).total_seconds() * 1000,
    )


def _response(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return (event.get("tool_call_metadata") or {}).get("model_response") or {}


def _reply_id(event: Mapping[str, Any]) -> str | None:
    return _response(event).get("id")


def _time(event: Mapping[str, Any]) -> datetime | None:
    """Return an event's time or None. Times have no zone, and only their differences are used."""
    try:
        return datetime.fromisoformat(str(event.get("timestamp"))).replace(tzinfo=None)
    except ValueError:
        return None
