"""Format ``openhands``: the events of OpenHands, of its first program (V0) and of its SDK (V1), in one list.

Its evaluations write JSON Lines (``output.jsonl``) with a run's events as ``history``, and the task's name; its server
answers with ``trajectory`` or ``events``. Its SDK keeps a conversation in a folder: ``base_state.json``, and a file for
each event below ``events``.

Events of one model reply share its id. In V0, all of them report its usage, which counts once.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec

from lhaw_record.recorder.events import Usage
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.base.text.fields import as_object
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, in_one, read_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    read_each,
    stated_usage,
)
from lhaw_record.runners.imports.formats import is_event
from lhaw_record.runners.imports.formats.openai_messages import first_prompt, usage_of
from lhaw_record.runners.imports.source_files import decode_json, decode_json_or_lines
from lhaw_record.runners.imports.trajectory import CallResult, ForeignTurn, result_messages
from lhaw_record.runners.models.chat_completions import text_of

FORMAT = "openhands"
_LISTS = ("history", "trajectory", "events")
_EVENT_FILE = re.compile(r"event-\d+-.*\.json")


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event of either version. ``name`` is the source's own, for remarks; ``key`` that of the action of a result."""

    kind: Literal["system", "user", "message", "call", "result", "other"]
    name: str
    key: str = ""
    text: str = ""
    call: ToolCall | None = None
    reply_id: str | None = None
    response: Mapping[str, Any] = {}
    is_error: bool | None = None
    time: datetime | None = None
    final_answer: str | None = None


def parse_all(sources: Mapping[str, SourceFile], options: Options, known: KnownRecords) -> dict[str, ParsedFile]:
    """Parse each file. All events of a conversation's folder are returned under its state file or first event."""
    places = {label: PurePosixPath(label) for label in sources}
    parents = {label: place.parent for label, place in places.items() if _EVENT_FILE.fullmatch(place.name)}
    homes = parents | {str(folder.parent / "base_state.json"): folder for folder in parents.values()}
    together: dict[PurePosixPath, list[SourceFile]] = defaultdict(list)
    for label, source in sources.items():
        together[homes.get(label, places[label])].append(source)
    found: dict[str, ParsedFile] = {}
    given = {parts[0].label: parts for parts in together.values()}
    return found | read_each(given, partial(_parsed, options, known), found)


def _parsed(options: Options, known: KnownRecords, parts: Sequence[SourceFile]) -> ParsedFile:
    first = parts[0]
    if len(parts) == 1 and not _EVENT_FILE.fullmatch(first.name):
        return _runs(first, options, known)
    values, run = [decode_json(each) for each in parts], dict[str, Any]()
    if not _EVENT_FILE.fullmatch(first.name):
        state = values.pop(0)
        if not isinstance(state, dict):
            raise ImportFailed(f"{first.label} is not an object, so it is not the state of a conversation")
        values.append({"kind": "ConversationStateUpdateEvent", "key": "full_state", "value": state})
        run = {"metadata": state.get("agent")}
    return read_trajectory(first.label, partial(_trajectory, values, run), options, known, format_name=FORMAT)


def _runs(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return a trial for each run. Its location is the file, with the line if there are several."""
    given = decode_json_or_lines(source)
    is_one = not any(isinstance(each, dict) and not each.keys().isdisjoint(_LISTS) for each in given)
    runs = [{"history": given}] if is_one else given
    found: list[ParsedFile] = []
    for number, run in enumerate(runs, 1):
        location = source.label if len(runs) == 1 else f"{source.label}:{number}"
        history = next((run[name] for name in _LISTS if name in run), None) if isinstance(run, dict) else None
        if not isinstance(history, list) or not any(isinstance(each, dict) and is_event(each) for each in history):
            raise ImportFailed(f"{location} is not a list of events with actions, so it is not an OpenHands trajectory")
        read = partial(_trajectory, history, run)
        found.append(read_trajectory(location, read, options, known, format_name=FORMAT))
    return in_one(found)


def _trajectory(history: Sequence[Any], run: Mapping[str, Any], remarks: Counter[str]) -> BareTrajectory:
    """Return the run that the events describe."""
    given = [as_object(each, "an event") for each in history]
    events = [_of_sdk(each) if isinstance(each.get("kind"), str) else _of_program(each) for each in given]
    acts = [each for each in events if each.kind in ("message", "call")]
    if not acts:
        raise ValueError("the agent did nothing: no event of source agent has an action")
    results = _results(events, acts)
    kept = set(map(id, results.values()))
    replies: dict[str, list[_Event]] = defaultdict(list)
    for act in acts:
        replies[act.reply_id or act.key].append(act)
    metrics = _metrics(given, run)
    usages = {str(each.get("response_id")): each for each in metrics.get("token_usages") or ()}
    messages: list[Message] = []
    turns: list[ForeignTurn] = []
    for event in events:
        if event.kind in ("system", "user"):
            messages.append(Message(role="system" if event.kind == "system" else "user", content=event.text))
        elif event.kind in ("message", "call"):
            batch = replies.pop(event.reply_id or event.key, None)  # of which only the first event begins a turn
            if batch:
                turns.append(_turn(batch, tuple(messages), results, usages.get(event.reply_id or "", {})))
                messages += [turns[-1].reply, *result_messages(turns[-1].reply, turns[-1].outcomes)]
        elif id(event) not in kept:
            remarks[f"events of kind {event.name} are not kept"] += 1
    started = next((each.get("args") or {} for each in given if each.get("action") == "system"), {})
    version = started.get("openhands_version")
    times = [each.time for each in events if each.time is not None]
    total = metrics.get("accumulated_token_usage") or {}
    models = (
        ((run.get("metadata") or {}).get("llm") or {}).get("model"),
        *(event.response.get("model") for event in acts),
        *(each.get("model") for each in usages.values()),
    )
    remarks.update([f"the run ended with an error: {str(run['error'])[:200]}"] if run.get("error") else [])
    answers = [each.final_answer for each in acts if each.final_answer is not None]
    return BareTrajectory(
        prompt=first_prompt(turns),
        agent=str(started.get("agent_class") or FORMAT),
        model=next(filter(None, map(str, filter(None, models))), UNKNOWN),
        program=f"OpenHands {version}" if version else None,
        turns=turns,
        task=run.get("instance_id"),
        final_answer=answers[-1] if answers else None,
        ended_by="submitted" if answers and acts[-1].call else None,
        duration_ms=(times[-1] - times[0]).total_seconds() * 1000 if times else None,
        started_at=times[0].isoformat() if times else None,
        stated=_usage(total if total.get("prompt_tokens") else {}, metrics.get("accumulated_cost")),
    )


def _results(events: Sequence[_Event], acts: Sequence[_Event]) -> dict[str, _Event]:
    """Return the result of each action that has one. One that names only its call belongs to the first such action."""
    found: dict[str, _Event] = {}
    names = {act.key for act in acts}
    for each in events:
        if each.kind == "result":
            same = (act.key for act in acts if act.call and each.call and act.call.call_id == each.call.call_id)
            key = each.key or next((key for key in same if key not in found), "")
            if key in names:
                found.setdefault(key, each)
    return found


def _metrics(events: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the usage of the run: the evaluation's, or the last that an event reports, which is cumulative."""
    told = [run.get("metrics")] + [each.get("llm_metrics") for each in reversed(events)]
    for each in reversed(events):
        value = each.get("value") if each.get("key") in ("stats", "full_state") else None
        if isinstance(value, dict) and (by_use := (value.get("stats") or value).get("usage_to_metrics")):
            tokens: Counter[str] = Counter()
            for used in by_use.values():
                tokens.update(
                    {key: n for key, n in (used.get("accumulated_token_usage") or {}).items() if type(n) is int}
                )
            told.append(
                {
                    "accumulated_cost": sum(used.get("accumulated_cost") or 0 for used in by_use.values()),
                    "accumulated_token_usage": tokens,
                    "token_usages": [call for used in by_use.values() for call in used.get("token_usages") or ()],
                }
            )
    return next(filter(None, told), {})


def _usage(given: Mapping[str, Any], cost: Any = None) -> Usage:
    return stated_usage(
        cost,
        input_tokens=given.get("prompt_tokens"),
        output_tokens=given.get("completion_tokens"),
        cached_input_tokens=given.get("cache_read_tokens"),
        cache_write_tokens=given.get("cache_write_tokens"),
    )


def _turn(
    batch: Sequence[_Event], request: tuple[Message, ...], results: Mapping[str, _Event], usage: Mapping[str, Any]
) -> ForeignTurn:
    """Return the turn of one reply's actions."""
    response = batch[0].response
    choice: Mapping[str, Any] = next(iter(response.get("choices") or ()), {})
    acts = [each for each in batch if each.call is not None]
    reply = Message(
        role="assistant",
        content=str((choice.get("message") or {}).get("content") or batch[0].text),
        tool_calls=tuple(each.call for each in acts if each.call),
    )
    return ForeignTurn(
        conversation=request,
        reply=reply,
        outcomes=tuple(_outcome(each, results.get(each.key)) for each in acts),
        finish_reason=choice.get("finish_reason"),
        usage=_usage(usage) if usage else usage_of(reply, response),
    )


def _outcome(act: _Event, result: _Event | None) -> CallResult | None:
    if result is None:
        return None
    took = None if act.time is None or result.time is None else (result.time - act.time).total_seconds() * 1000
    return CallResult(text=result.text, is_error=result.is_error, duration_ms=took)


def _of_program(event: Mapping[str, Any]) -> _Event:
    """Read an event of V0, where only an observation of kind ``error`` says that it is one."""
    action, args = event.get("action"), event.get("args") or {}
    source, content = event.get("source"), str(args.get("content") or "")
    metadata = event.get("tool_call_metadata") or {}
    response = metadata.get("model_response") or {}
    key, time = str(event.get("id")), _time(event)
    if event.get("observation") and event.get("cause") is not None:
        is_error = True if event["observation"] == "error" else None
        text = str(event.get("content") or "")
        name = str(event["observation"])
        return _Event(kind="result", name=name, key=str(event["cause"]), text=text, is_error=is_error, time=time)
    if not action or source not in ("agent", "user") or (source == "user" and action != "message"):
        return _Event(kind="other", name=str(action or event.get("observation")), time=time)
    if source == "user" or action in ("system", "message"):
        kind: Any = "user" if source == "user" else action
        return _Event(
            kind=kind, name=action, key=key, text=content, reply_id=response.get("id"), response=response, time=time
        )
    call_id = str(metadata.get("tool_call_id") or f"event-{key}")
    written = [
        call["function"]
        for choice in response.get("choices") or ()
        for call in (choice.get("message") or {}).get("tool_calls") or ()
        if call.get("id") == call_id
    ]
    name = str(metadata.get("function_name") or action)
    arguments = written[0]["arguments"] if written else canonical_json(args).decode()
    return _Event(
        kind="call",
        name=action,
        key=key,
        text=str(args.get("thought") or ""),
        call=ToolCall(call_id=call_id, name=written[0]["name"] if written else name, arguments_json=arguments),
        reply_id=response.get("id"),
        response=response,
        time=time,
        final_answer=str(args.get("final_thought") or "") if action == "finish" else None,
    )


def _of_sdk(event: Mapping[str, Any]) -> _Event:
    """Read an event of V1. The call is as the model wrote it; ``action`` is what the SDK made of it."""
    name, key, time = event["kind"], str(event.get("id")), _time(event)
    call_id, reply_id = str(event.get("tool_call_id") or ""), event.get("llm_response_id")
    if name == "ACPToolCallEvent":
        raise ValueError(
            "an agent behind the Agent Client Protocol did the work; only that agent's own trajectory says what it did"
        )
    if name == "SystemPromptEvent":
        return _Event(kind="system", name=name, text=text_of([event.get("system_prompt")]), time=time)
    if name == "MessageEvent" and event.get("source") in ("agent", "user"):
        message = as_object(event.get("llm_message"), "llm_message")
        text = text_of([*(message.get("content") or ()), *(event.get("extended_content") or ())])
        kind: Any = "user" if event["source"] == "user" else "message"
        answer = text if kind == "message" else None
        return _Event(kind=kind, name=name, key=key, text=text, reply_id=reply_id, time=time, final_answer=answer)
    if name == "ActionEvent":
        action = event.get("action") or {}
        made = {field: value for field, value in action.items() if field != "kind"}
        call = event.get("tool_call") or {"name": event.get("tool_name"), "arguments": canonical_json(made).decode()}
        written = as_object(call.get("function") or call, "a tool call")
        if not isinstance(written.get("name"), str) or not isinstance(written.get("arguments"), str):
            raise ValueError("an ActionEvent has no tool call with a name and arguments")
        return _Event(
            kind="call",
            name=name,
            key=key,
            text=text_of(event.get("thought")),
            call=ToolCall(call_id=call_id, name=written["name"], arguments_json=written["arguments"]),
            reply_id=reply_id,
            time=time,
            final_answer=str(made.get("message") or "") if action.get("kind") == "FinishAction" else None,
        )
    if name not in ("ObservationEvent", "UserRejectObservation", "AgentErrorEvent"):
        return _Event(kind="other", name=name, time=time)
    seen = event.get("observation") or {}
    told = {field: value for field, value in seen.items() if field != "kind"}
    content = event.get("error") or event.get("rejection_reason") or seen.get("content", canonical_json(told).decode())
    return _Event(
        kind="result",
        name=name,
        key=str(event.get("action_id") or ""),
        text=text_of(content),
        call=ToolCall(call_id=call_id, name="", arguments_json=""),
        is_error=bool(seen["is_error"]) if "is_error" in seen else True if name != "ObservationEvent" else None,
        time=time,
    )


def _time(event: Mapping[str, Any]) -> datetime | None:
    """Return an event's time or None. Times without a zone are in UTC."""
    try:
        moment = datetime.fromisoformat(str(event.get("timestamp")))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
