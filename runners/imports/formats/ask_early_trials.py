"""Format ``ask-early-trials``: the trial JSON of the paper Ask Early. Source: the end of its appendix A.12.

The paper gives the names of the fields but not their types, so numbers and booleans may also be written as text.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.recorder.events import AnyEvent
from lhaw_record.recorder.events.values import CONDITIONS, INJECT_PERCENTAGES, Checkpoint, Task, Variant
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.text.fields import (
    as_bool,
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    optional_count,
    shown,
)
from lhaw_record.runners.environments.grading.grade import CheckpointResult
from lhaw_record.runners.imports.foreign_trial import (
    Finish,
    ForeignInjection,
    ForeignTrial,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    converted,
    imported_task,
    imported_variant,
    skipped_entries,
)
from lhaw_record.runners.imports.source_files import decode_json_or_lines
from lhaw_record.runners.imports.trajectory import (
    CallResult,
    ForeignTurn,
    Said,
    call_turn,
    events_of_turns,
    said_in,
    turns_said,
)

GRADER = "ask_early/task_success"
SIMULATOR = "dump"
"""The paper's simulated user gives every removed segment, whatever the question (appendix A.11.2)."""

_SUCCESS = "task_success"
_TEXT_ACTIONS = frozenset({"", "message", "text", "assistant_message", "agent_message"})
_MCP_ATLAS_TASK = re.compile(r"([0-9a-f]{24})::")


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return the trials in a file, which holds one object, a list of objects, or JSON Lines."""
    notes: Counter[str] = Counter()

    def convert(entry: tuple[int, Any]) -> ForeignTrial:
        number, given = entry
        location = f"{source.label}, trial {number}"
        if not isinstance(given, dict) or not {"variant_id", "condition", "task_success"} <= set(given):
            raise ImportFailed(
                f"{location} has no variant_id, condition and task_success; docs/imports.md names the fields"
            )
        trial, note = _trial(location, given, options, known)
        notes.update([note] if note else [])
        return trial

    parsed = converted("trials", enumerate(decode_json_or_lines(source), 1), convert)
    return msgspec.structs.replace(parsed, skipped=(*parsed.skipped, *skipped_entries("conversations", notes)))


def _trial(location: str, given: Mapping[str, Any], options: Options, known: KnownRecords) -> tuple[ForeignTrial, str]:
    """Return the trial, and the reason if its conversation is not kept."""
    condition, point = condition_of_trial(given.get("condition"), given.get("injection_point"))
    task, variant = _measured(location, given, condition, known)
    is_known = given.get("actions", ()) is not None  # null: the source does not say what the agent did
    actions = [as_object(each, "an action") for each in as_list(given.get("actions") if is_known else [], "actions")]
    if is_known:
        _check_counts(given, actions)
    said, note = _conversation(given.get("conversation"))
    messages = [each.message for each in said]
    has_channel = condition == "ask_user"
    model = as_text(given.get("model"), "model")
    trajectory, why = _trajectory(actions, said, model=model, has_channel=has_channel)
    is_success = as_bool(given["task_success"], "task_success")
    duration = given.get("duration_seconds")
    trial = ForeignTrial(
        location=location,
        task=task,
        variant=variant,
        condition=condition,
        agent=options.agent or str(given.get("agent") or model),
        model=model,
        grader=GRADER,
        trial_index=optional_count(given.get("trial_index"), "trial_index"),
        seed=optional_count(given.get("seed"), "seed"),
        user_simulator=SIMULATOR if has_channel else None,
        oracle_scope="task" if given.get("oracle_scope") == "task" else "variant",
        trajectory=trajectory if is_known else None,
        injected=_injected(condition, point, given, actions, messages) if condition.startswith("inject_") else None,
        end=Finish(
            is_success=is_success,
            results=(CheckpointResult(checkpoint_id=_SUCCESS, score=float(is_success)),),
            final_answer=messages[-1].content if messages and messages[-1].role == "assistant" else None,
            duration_ms=None if duration is None else as_number(duration, "duration_seconds") * 1000,
        ),
    )
    return trial, note or why


def _measured(
    location: str, given: Mapping[str, Any], condition: str, known: KnownRecords
) -> tuple[Task, Variant | None]:
    """Return the task, with the format's single checkpoint, and the variant, which is None for the full prompt."""
    variant = None
    if given["variant_id"] is None and condition.startswith("full") and given.get("task_id"):
        measured = as_text(given.get("benchmark"), "benchmark"), as_text(given["task_id"], "task_id")
    else:
        variant = _variant(location, as_text(given["variant_id"], "variant_id"), known)
        measured = variant.benchmark, variant.task_id
    checkpoints = (Checkpoint(checkpoint_id=_SUCCESS, label="the task succeeded"),)
    return imported_task(*measured, checkpoints=checkpoints), variant


def _variant(location: str, variant_id: str, known: KnownRecords) -> Variant:
    """Return the variant from the store, or a variant with only its id if the id names a task of MCP-Atlas."""
    if variant_id in known.variants:
        return known.variants[variant_id]
    match = _MCP_ATLAS_TASK.match(variant_id)
    if match is None:
        raise ImportFailed(
            f"{location}: the benchmark of variant {variant_id!r} is unknown; import the dataset first: "
            "lhaw-record import lhaw-dataset FILE --store STORE"
        )
    return imported_variant("mcp_atlas", match[1], variant_id)


def _check_counts(given: Mapping[str, Any], actions: Sequence[Mapping[str, Any]]) -> None:
    if given.get("total_actions") is not None and as_count(given["total_actions"], "total_actions") != len(actions):
        raise ValueError("total_actions is not the number of actions")
    marked = [as_bool(each["is_pre_injection"], "is_pre_injection") for each in actions if _is_marked(each)]
    if marked != sorted(marked, reverse=True):
        raise ValueError("an action before the injection follows one after it")
    stated = given.get("pre_injection_actions")
    is_comparable = stated is not None and len(marked) == len(actions) and given.get("injection_point") is not None
    if is_comparable and as_count(stated, "pre_injection_actions") != sum(marked):
        raise ValueError("pre_injection_actions is not the number of pre-injection actions")


def _is_marked(action: Mapping[str, Any]) -> bool:
    return action.get("is_pre_injection") is not None


def _conversation(value: Any) -> tuple[list[Said], str]:
    """Return the messages, or no messages and the reason why they are not kept."""
    if not value:
        return [], ""
    try:
        return said_in(as_list(value, "conversation")), ""
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return [], f"not in the form of a chat ({error}); the actions are kept"


def _trajectory(
    actions: Sequence[Mapping[str, Any]], said: Sequence[Said], *, model: str, has_channel: bool
) -> tuple[tuple[AnyEvent, ...], str]:
    """Return the events and a note if the conversation was not used.

    The events come from the conversation if its tool calls match the actions, otherwise from the actions alone.
    """
    calls = [_call(action) for action in actions]
    turns = _aligned(turns_said(said), calls) if said else None
    if turns is not None:
        return events_of_turns(turns, model=model, has_channel=has_channel, simulator=SIMULATOR), ""
    note = "the tool calls do not match the actions, so only the actions are imported" if said else ""
    return events_of_turns(calls, model=model, has_channel=has_channel, simulator=SIMULATOR), note


def _call(action: Mapping[str, Any]) -> ForeignTurn:
    name, given, result = str(action.get("action_name") or ""), action.get("parameters"), action.get("result")
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    outcome = None if result is None else CallResult(text=text)
    return call_turn(name, given, outcome, is_text=name in _TEXT_ACTIONS and not given)


def _aligned(turns: Sequence[ForeignTurn], calls: Sequence[ForeignTurn]) -> list[ForeignTurn] | None:
    """Return the turns with the outcomes of the actions, or None if turns and actions do not match."""
    rest = list(calls)
    found = []
    for turn in turns:
        names = [call.name for call in turn.reply.tool_calls]
        taken, rest = rest[: len(names)], rest[len(names) :]
        if [call.name for each in taken for call in each.reply.tool_calls] != names:
            return None
        is_text = bool(not names and rest and not rest[0].reply.tool_calls)
        rest = rest[1:] if is_text else rest
        outcomes = tuple(each.outcomes[0] or own for each, own in zip(taken, turn.outcomes, strict=True))
        found.append(msgspec.structs.replace(turn, outcomes=outcomes, is_text_action=is_text))
    return None if rest else found


def _injected(
    condition: str,
    point: float | None,
    given: Mapping[str, Any],
    actions: Sequence[Mapping[str, Any]],
    messages: Sequence[Message],
) -> ForeignInjection:
    """Return when the message was injected, and its text if the conversation contains it."""
    stated = given.get("pre_injection_actions")
    if actions and all(map(_is_marked, actions)):
        before = sum(as_bool(each["is_pre_injection"], "is_pre_injection") for each in actions)
    elif stated is not None:
        before = as_count(stated, "pre_injection_actions")
    else:
        raise ValueError("nothing says when the message was injected")
    message = _message_after([_call(action) for action in actions[:before]], messages)
    was_injected = before < len(actions) or message is not None
    return ForeignInjection(
        percent=int(condition.removeprefix("inject_")),
        message=message,
        after_action=before if was_injected else None,
        target_action=int(point) if point is not None else None,
    )


def _message_after(calls: Sequence[ForeignTurn], messages: Sequence[Message]) -> str | None:
    """Return the first user turn after exactly these actions, or None if there is none.

    Text turns are counted only if the actions list them.
    """
    texts = sum(not call.reply.tool_calls for call in calls)
    wanted = len(calls) - texts
    seen_calls = seen_texts = 0
    for message in messages:
        if message.role == "assistant":
            seen_calls += len(message.tool_calls)
            seen_texts += not message.tool_calls
        has_begun = seen_calls + seen_texts > 0
        if message.role == "user" and has_begun and seen_calls == wanted and (not texts or seen_texts == texts):
            return message.content
    return None


_NAMES = {
    "oracle": "full",
    "fully_specified": "full",
    "hidden": "underspecified",
    "interaction": "ask_user",
    "interactive": "ask_user",
    "no_clarification": "underspecified",
    "no_inject": "underspecified",
    "nc": "underspecified",
    "natural_ask": "ask_user",
    "natural": "ask_user",
}
_INJECT = re.compile(
    r"inj(?:ect(?:ion|ed)?)?(?:_at)?_?(0?\.\d+|\d+)?(?:_?(?:percent|pct|%))?|(\d+)(?:_?(?:percent|pct|%))"
)


def condition_of_trial(condition: Any, point: Any) -> tuple[str, float | None]:
    """Return the condition, and the injection point as a number, or None if it only repeats the percentage."""
    name = re.sub(r"[\s-]+", "_", as_text(condition, "condition").strip().lower())
    name = _NAMES.get(name, name)
    number = None if point in (None, "") else as_number(str(point).rstrip("% "), "injection_point")
    match = _INJECT.fullmatch(name)
    if name in CONDITIONS and not name.startswith("inject_"):
        return name, None
    if match is None:
        raise ValueError(f"unknown condition {shown(condition)}")
    stated = match[1] or match[2]
    percent = _percent(float(stated)) if stated else None
    said = _percent(number) if number is not None else None
    if percent is None:
        percent, said = said, None
    elif number is not None and said in INJECT_PERCENTAGES and 0 < number < 1 and said != percent:
        raise ValueError(f"condition {shown(condition)} contradicts injection_point {shown(point)}")
    if percent not in INJECT_PERCENTAGES:
        raise ValueError(f"condition {shown(condition)} at {shown(point)} is none of {INJECT_PERCENTAGES} percent")
    is_repeated = number is None or 0 < number < 1 or _percent(number) == percent
    return f"inject_{percent}", None if is_repeated else number


def _percent(number: float) -> int:
    return round(number * 100) if 0 < number < 1 else round(number)
