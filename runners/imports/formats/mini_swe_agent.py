"""Formats ``mini-swe-agent`` and ``swe-agent``: trajectory files of both programs.

mini-swe-agent writes ``-1`` (commands in text) and ``-1.1`` (tools), which holds chat messages or, with a model
of the Responses API, that API's responses and items. Where commands are in text, a reply is a text action and the next
message is its result, as for every agent without tools.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.text.fields import as_list, as_object
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, read_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    stated_usage,
)
from lhaw_record.runners.imports.formats.openai_messages import first_prompt, usage_of
from lhaw_record.runners.imports.source_files import decode_json
from lhaw_record.runners.imports.trajectory import Said, said_in, turns_of, turns_said

FORMAT = "mini-swe-agent"
_FORMATS = ("mini-swe-agent-1", "mini-swe-agent-1.1")
SWE_AGENT = "swe-agent"
_ENDS: dict[str, EndedBy] = {"Submitted": "submitted", "TimeExceeded": "time_limit"}
_SWE_AGENT_ENDS: dict[str, EndedBy] = {
    "submitted": "submitted",
    "exit_forfeit": "gave_up",
    "exit_command": "gave_up",
    "exit_cost": "cost_limit",
    "exit_context": "context_limit",
    "exit_total_execution_time": "time_limit",
}
"""By SWE-agent's ``exit_status``. What it submits for an agent that met a limit is ``submitted (exit_cost)``."""


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return the one trial of a file."""
    given = decode_json(source)
    if not isinstance(given, dict) or not {"info", "messages"} <= given.keys():
        raise ImportFailed(f"{source.label} has no info and messages, so it is not a mini-swe-agent trajectory")
    named = given.get("trajectory_format", _FORMATS[0])
    if named not in _FORMATS:
        raise ImportFailed(f"{source.label} has the trajectory_format {named!r}; known: {', '.join(_FORMATS)}")
    return read_trajectory(source.label, partial(_trajectory, given), options, known, format_name=FORMAT)


def _trajectory(given: Mapping[str, Any], remarks: Counter[str]) -> BareTrajectory:
    info = as_object(given["info"], "info")
    said: list[Said] = []
    for message in as_list(given["messages"], "messages"):
        extra = as_object(message, "a message").get("extra") or {}
        if (
            message.get("role") == "user" and "response" in extra
        ):  # a reply without a usable command, which was paid for
            said.append(Said(message=_reply(extra["response"]), wire={"extra": extra}, is_dropped=True))
        if message.get("role") != "exit":
            said += said_in([message], remarks)
    turns = turns_said(said, remarks, _usage)
    if not turns:
        raise ValueError("the conversation has no reply")
    config = (info.get("config") or {}).get("model") or {}
    served = next((model for each in said if (model := _response(each.wire).get("model"))), None)
    total = (info.get("model_stats") or {}).get("instance_cost")
    version = info.get("mini_version")
    return BareTrajectory(
        prompt=first_prompt(turns),
        agent=FORMAT,
        model=str(config.get("model_name") or served or UNKNOWN),
        program=f"{FORMAT} {version}" if version else None,
        turns=turns,
        task=given.get("instance_id"),
        final_answer=info.get("submission"),
        ended_by=_ENDS.get(str(info.get("exit_status"))),
        started_at=next((time for each in said if (time := (each.wire.get("extra") or {}).get("timestamp"))), None),
        stated=stated_usage(cost_usd=total),
    )


def _response(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the provider's response to which a message belongs. It is the message itself in OpenAI's Responses format.

    If mini-swe-agent could not write it as JSON, it is a text, of which nothing is known.
    """
    given = (message.get("extra") or {}).get("response", message)
    return given if isinstance(given, dict) else {}


def _reply(response: Any) -> Message:
    given = _response({"extra": {"response": response}})
    wire = next((choice.get("message") for choice in given.get("choices") or ()), given)
    found = said_in([{"role": "assistant", **wire}] if "output" not in wire else [wire])
    return found[0].message


def _usage(said: Said) -> dict[str, Any]:
    response = _response(said.wire)
    return {
        "usage": usage_of(said.message, response, (said.wire.get("extra") or {}).get("cost")),
        "finish_reason": next((each.get("finish_reason") for each in response.get("choices") or ()), None),
    }


def parse_swe_agent(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return the one trial of a file of SWE-agent, whose name is that of the task."""
    given = decode_json(source)
    if not isinstance(given, dict) or not isinstance(given.get("history"), list):
        raise ImportFailed(f"{source.label} has no list under history, so it is not a SWE-agent trajectory")
    name = PurePosixPath(source.name).name.removesuffix(".traj")
    return read_trajectory(source.label, partial(_of_swe_agent, given, name), options, known, format_name=SWE_AGENT)


def _of_swe_agent(given: Mapping[str, Any], name: str, remarks: Counter[str]) -> BareTrajectory:
    history = [as_object(each, "a message") for each in given["history"]]
    shown = [each for each in history if not each.get("is_demo")]
    if len(shown) < len(history):
        remarks["messages of a demonstration are not kept"] += len(history) - len(shown)
    steps = [as_object(each, "a step") for each in as_list(given.get("trajectory") or [], "trajectory")]
    replies = sum(each.get("role") == "assistant" for each in shown)
    has_tools = any(each.get("tool_calls") for each in shown)
    wires = [_swe_agent_message(each) for each in shown]
    for number, step in enumerate(steps[replies:], replies):  # the history may end before the last ones
        wires += _swe_agent_step(step, f"step-{number}" if has_tools else None)
    turns = turns_of(wires, remarks)
    info = as_object(given.get("info") or {}, "info")
    config = given.get("replay_config")
    agent = as_object(config, "replay_config").get("agent") if isinstance(config, dict) else None
    stats = info.get("model_stats") or {}
    is_known = bool(stats.get("api_calls"))  # a replay of recorded actions calls no model
    status = re.search(r"exit_\w+|submitted", re.sub(r"submitted \((.*)\)", r"\1", str(info.get("exit_status"))))
    return BareTrajectory(
        prompt=first_prompt(turns),
        agent=SWE_AGENT,
        model=str(((agent or {}).get("model") or {}).get("name") or UNKNOWN),
        program=f"{SWE_AGENT} {version}" if (version := info.get("swe_agent_version")) else None,
        turns=turns,
        task=name,
        final_answer=info.get("submission"),
        ended_by=_SWE_AGENT_ENDS.get(status[0]) if status else None,
        stated=stated_usage(
            input_tokens=stats.get("tokens_sent") if is_known else None,
            output_tokens=stats.get("tokens_received") if is_known else None,
            cost_usd=stats.get("instance_cost") if is_known else None,
        ),
    )


def _swe_agent_message(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with what chat completions have. The result of several calls at once is that of the first."""
    kept = {name: given[name] for name in ("role", "content", "tool_calls") if given.get(name) is not None}
    ids = given.get("tool_call_ids")
    return {**kept, "tool_call_id": ids[0]} if given.get("role") == "tool" and ids else kept


def _swe_agent_step(step: Mapping[str, Any], call_id: str | None) -> list[Mapping[str, Any]]:
    """Return the messages of a step: a call, or without an id a text, and its result."""
    text, action = str(step.get("response") or step.get("thought") or ""), str(step.get("action") or "")
    if call_id is None or not action.strip():
        return [{"role": "assistant", "content": text}, {"role": "user", "content": str(step.get("observation") or "")}]
    name, _, rest = action.strip().partition(" ")
    function = {"name": name, "arguments": canonical_json({"command": rest} if rest else {}).decode()}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "content": str(step.get("observation") or ""), "tool_call_id": call_id},
    ]
