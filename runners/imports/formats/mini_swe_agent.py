"""Format ``mini-swe-agent``: the trajectory files of mini-swe-agent, ``-1`` (commands in text) and ``-1.1`` (tools).

Version 1.1 holds chat messages or, with a model of the Responses API, that API's responses and items.

In ``-1``, a reply is a text action and the next message is its result, as for every agent without tools.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.text.fields import as_list, as_number, as_object
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, known_cost, read_trajectory
from lhaw_record.runners.imports.foreign_trial import (
    UNKNOWN,
    ImportFailed,
    KnownRecords,
    Options,
    ParsedFile,
    SourceFile,
    stated_usage,
)
from lhaw_record.runners.imports.formats.openai_messages import first_prompt, usage_fields
from lhaw_record.runners.imports.source_files import decode_json
from lhaw_record.runners.imports.trajectory import Said, said_in, turns_said

FORMAT = "mini-swe-agent"
_FORMATS = ("mini-swe-agent-1", "mini-swe-agent-1.1")
_ENDS: dict[str, EndedBy] = {"Submitted": "submitted", "TimeExceeded": "time_limit"}


def parse(source: SourceFile, options: Options, known: KnownRecords) -> ParsedFile:
    """Return the one trial of a file."""
    given = decode_json(source)
    if not isinstance(given, dict) or not {"info", "messages"} <= given.keys():
        raise ImportFailed(f"{source.label} has no info and messages, so it is no trajectory of mini-swe-agent")
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
    """Return the usage of a reply. A cost of 0 becomes null, because it means that the price is unknown."""
    cost = (said.wire.get("extra") or {}).get("cost")
    response = _response(said.wire)
    return {
        **usage_fields(said.message, response),
        "cost_usd": None if cost is None else known_cost(as_number(cost, "cost"), 1),
        "finish_reason": next((each.get("finish_reason") for each in response.get("choices") or ()), None),
    }
