"""Format ``mini-swe-agent``: the trajectory files of mini-swe-agent, ``-1`` (commands in text) and ``-1.1`` (tools).

In ``-1``, a reply is a text action and the next message is its result, as for every agent without tools.
"""

from collections.abc import Mapping
from typing import Any

from lhaw_record.runners.base.text.fields import as_list, as_number, as_object
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, known_cost, parsed_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
)
from lhaw_record.runners.imports.formats.openai_messages import chat_turns, first_prompt, usage_fields
from lhaw_record.runners.imports.source_files import decode_json

FORMAT = "mini-swe-agent"
_FORMATS = ("mini-swe-agent-1", "mini-swe-agent-1.1")


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return the one trial of a file."""
    given = decode_json(source)
    if not isinstance(given, dict) or not {"info", "messages"} <= given.keys():
        raise ImportFailed(f"{source.label} has no info and messages, so it is no trajectory of mini-swe-agent")
    named = given.get("trajectory_format", _FORMATS[0])
    if named not in _FORMATS:
        raise ImportFailed(f"{source.label} has the trajectory_format {named!r}; known: {', '.join(_FORMATS)}")
    try:
        found = _trajectory(given)
    except ValueError as error:
        raise ImportFailed(f"{source.label}: {error}") from error
    return parsed_trajectory(source.label, found, options, known, format_name=FORMAT)


def _trajectory(given: Mapping[str, Any]) -> BareTrajectory:
    info = as_object(given["info"], "info")
    messages = [as_object(each, "a message") for each in as_list(given["messages"], "messages")]
    said = [each for each in messages if each.get("role") != "exit"]
    turns = chat_turns(said, _usage)
    config = (info.get("config") or {}).get("model") or {}
    served = next((model for each in said if (model := _response(each).get("model"))), None)
    has_costs = all(turn.cost_usd is not None for turn in turns)
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
        ended_by="submitted" if info.get("exit_status") == "Submitted" else None,
        cost_usd=None if has_costs or total is None else known_cost(as_number(total, "instance_cost"), 1),
    )


def _response(message: Mapping[str, Any]) -> Mapping[str, Any]:
    return (message.get("extra") or {}).get("response") or {}


def _usage(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of a reply. A cost of 0 becomes null, because it means that the price is unknown."""
    cost = (reply.get("extra") or {}).get("cost")
    tokens = usage_fields(_response(reply).get("usage") or {})
    return {
        **tokens,
        "cost_usd": None if cost is None else known_cost(as_number(cost, "cost"), 1),
        "finish_reason": next((each.get("finish_reason") for each in _response(reply).get("choices") or ()), None),
    }
