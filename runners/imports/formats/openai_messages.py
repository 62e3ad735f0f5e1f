"""Formats ``openai-messages`` and ``tau-bench``: conversations as chat messages.

A file of ``openai-messages`` has one, or one per line: a list of messages, or an object with ``messages``, which also
SWE-Together's sessions are.
A file of τ-bench is a list of runs with ``traj``; one of τ²-bench has ``simulations`` with ``messages``.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from lhaw_record.recorder.events import Usage
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.text.fields import as_count, as_list, as_number, as_object
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, in_one, read_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    stated_usage,
)
from lhaw_record.runners.imports.source_files import decode_json, decode_json_or_lines
from lhaw_record.runners.imports.trajectory import ForeignTurn, Said, turns_of, with_prose_questions
from lhaw_record.runners.models.costs import reported_usage, usage_in

FORMAT = "openai-messages"
TAU_BENCH = "tau-bench"
_POLICY = re.compile(r"#\s*(\w+) agent policy", re.IGNORECASE)
_TAU_ENDS: dict[str, EndedBy] = {"max_steps": "turn_limit", "user_stop": "submitted", "agent_stop": "submitted"}


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return a trial for each conversation. Its location is the file, with the line if there are several."""
    given = decode_json_or_lines(source)
    is_one = bool(given) and all(isinstance(each, dict) and {"role", "type"} & each.keys() for each in given)
    conversations = [{"messages": given}] if is_one else given
    found: list[ParsedFile] = []
    for number, each in enumerate(conversations, 1):
        location = source.label if len(conversations) == 1 else f"{source.label}:{number}"
        conversation = {"messages": each} if isinstance(each, list) else each
        if not isinstance(conversation, dict) or not isinstance(conversation.get("messages"), list):
            raise ImportFailed(f"{location} is neither a list of chat messages nor an object with messages")
        read = partial(_trajectory, conversation)
        found.append(read_trajectory(location, read, options, known, format_name=FORMAT))
    return in_one(found)


def usage_of(reply: Message, response: Mapping[str, Any], cost: Any = None) -> Usage:
    """Return the usage of a reply by the provider's response, and its cost if the source has it."""
    usage = reported_usage(reply, usage_in(response))
    return msgspec.structs.replace(usage, cost_usd=stated_usage(cost).cost_usd)


def _usage(said: Said) -> dict[str, Any]:
    return {"usage": usage_of(said.message, said.wire, said.wire.get("cost"))}


def first_prompt(turns: Sequence[ForeignTurn]) -> str:
    """Return the user's first message."""
    return next((each.content for each in turns[0].request if each.role == "user"), "")


def _trajectory(conversation: Mapping[str, Any], remarks: Counter[str]) -> BareTrajectory:
    turns = turns_of(_with_calls(conversation["messages"]), remarks, _usage)
    return BareTrajectory(
        prompt=first_prompt(turns),
        agent=UNKNOWN,
        model=str(conversation.get("model") or UNKNOWN),
        turns=turns,
        final_answer=turns[-1].reply.content or None,
    )


def _with_calls(messages: Sequence[Any]) -> Iterator[Any]:
    """Yield the messages, and those with calls as ``tool_uses`` as chat completions have them, each result after it.

    Where the content has blocks, ``tool_uses`` repeats their calls, some of them twice.
    """
    for number, message in enumerate(messages):
        uses = message.get("tool_uses") if isinstance(message, dict) else None
        if not uses or isinstance(message.get("content"), list):
            yield message
            continue
        given = [as_object(each, "a tool use") for each in as_list(uses, "tool_uses")]
        calls = [(f"{number}.{at}", each) for at, each in enumerate(given)]
        named = [
            {"id": key, "name": each.get("tool"), "arguments": _arguments(each.get("input"))} for key, each in calls
        ]
        yield _call_form({**message, "tool_calls": named})
        for key, each in calls:
            if "output" in each:
                yield {"role": "tool", "tool_call_id": key, "content": canonical_json(each["output"]).decode()}


def _arguments(given: object) -> object:
    """Return the arguments of a tool use, some of which are only a text, as an object."""
    return {"input": given} if isinstance(given, str) else given


def parse_tau_bench(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return a trial for each run of a file. Its prompt is what the simulated user was told, which no agent sees."""
    given = decode_json(source)
    is_second = isinstance(given, dict) and "simulations" in given
    runs = given["simulations"] if is_second else given
    if not isinstance(runs, list) or not all(isinstance(each, dict) and "task_id" in each for each in runs):
        raise ImportFailed(f"{source.label} has neither a list of runs with a task_id nor such simulations")
    found = []
    for number, run in enumerate(runs, 1):
        read = partial(_simulation, given, run) if is_second else partial(_tau_run, run)
        found.append(read_trajectory(f"{source.label}:{number}", read, options, known, format_name=TAU_BENCH))
    return in_one(found)


def _tau_run(run: Mapping[str, Any], remarks: Counter[str]) -> BareTrajectory:
    task = as_object(as_object(run.get("info") or {}, "info").get("task") or {}, "task")
    messages = as_list(run["traj"], "traj")
    policy = next((_POLICY.match(str(each.get("content")).lstrip()) for each in messages[:1]), None)
    return _talk(
        run,
        messages,
        remarks,
        prompt=str(task.get("instruction") or ""),
        task=f"{policy[1].lower()}/{run['task_id']}" if policy else str(run["task_id"]),
        reward=as_number(run["reward"], "reward"),
    )


def _simulation(given: Mapping[str, Any], run: Mapping[str, Any], remarks: Counter[str]) -> BareTrajectory:
    info = as_object(given.get("info") or {}, "info")
    domain = (info.get("environment_info") or {}).get("domain_name")
    tasks = {str(each.get("id")): each for each in as_list(given.get("tasks") or [], "tasks")}
    told = ((tasks.get(str(run["task_id"])) or {}).get("user_scenario") or {}).get("instructions") or ""
    reward = as_object(run.get("reward_info") or {}, "reward_info").get("reward")
    messages = []
    for each in as_list(run["messages"], "messages"):
        message = as_object(each, "a message")
        is_users = message.get("requestor") == "user" or (message.get("role") == "user" and message.get("tool_calls"))
        if is_users:
            remarks["calls that the simulated user made are not kept"] += 1
        else:
            messages.append(_call_form(message))
    return _talk(
        run,
        messages,
        remarks,
        prompt=told if isinstance(told, str) else canonical_json(told).decode(),
        task=f"{domain}/{run['task_id']}" if domain else str(run["task_id"]),
        reward=None if reward is None else as_number(reward, "reward"),
        model=str((info.get("agent_info") or {}).get("llm") or UNKNOWN),
        ended_by=_TAU_ENDS.get(str(run.get("termination_reason"))),
        stated=stated_usage(cost_usd=run.get("agent_cost")),
    )


def _call_form(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose calls have a name and arguments with what chat completions have."""
    calls = [
        {"id": each.get("id"), "type": "function", "function": {"name": each.get("name"), "arguments": text}}
        for each in message.get("tool_calls") or ()
        if (text := canonical_json(each.get("arguments") or {}).decode())
    ]
    names = ("role", "thinking", "usage", "cost")
    kept = {"content": message.get("content") or "", **{name: message.get(name) for name in names}}
    return {**kept, "tool_calls": calls} if calls else {**kept, "tool_call_id": message.get("id")}


def _talk(run: Mapping[str, Any], messages: Sequence[Any], remarks: Counter[str], **fields: Any) -> BareTrajectory:
    """Return the conversation of a run, whose user answers what the agent asks in prose."""
    turns = with_prose_questions(turns_of(messages, remarks, _usage))
    return BareTrajectory(
        **{"agent": UNKNOWN, "model": UNKNOWN, "condition": "full_ask_user", "final_answer": turns[-1].reply.content}
        | fields,
        turns=turns,
        trial_index=as_count(run.get("trial") or 0, "trial"),
    )
