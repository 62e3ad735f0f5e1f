"""Read the actions and the conversation of each counted attempt from a store."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import duckdb

from lhaw_record.analytics.views.rows import rows_of

_ACTIONS = """
    select stream_id, action_index, kind, action_name, arguments_json, result, is_error
    from actions
    where is_counted
    order by stream_id, action_index
"""


def actions(connection: duckdb.DuckDBPyConnection) -> dict[str, list[dict[str, Any]]]:
    """Return the actions of each counted attempt by stream id.

    Arguments are decoded from JSON. The arguments of malformed actions stay raw text.
    """
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(connection, _ACTIONS):
        text = row.pop("arguments_json")
        row["arguments"] = text if row["kind"] == "malformed" else json.loads(text)
        found[row.pop("stream_id")].append(row)
    return found


def without_attempt(connection: duckdb.DuckDBPyConnection, experiment: str | None) -> tuple[str, ...]:
    """Say how many trials (of an experiment) are left out because they have no valid attempt, if any."""
    ((missing,),) = connection.execute(
        "select count(*) from trials where trial_state <> 'valid' and (?::varchar is null or experiment_id = ?)",
        [experiment, experiment],
    ).fetchall()
    return (f"{missing} trials without a valid attempt",) if missing else ()


_EVENTS = """
    select
        stream_id,
        type,
        {
            'call_id': model_called.call_id,
            'thread_id': model_called.thread_id,
            'call_kind': model_called.call_kind,
            'parent_call_id': model_called.parent_call_id,
            'shared_count': model_called.shared_count,
            'new_messages_json': model_called.new_messages_json
        } as called,
        {
            'call_id': model_responded.call_id,
            'text': model_responded.text,
            'tool_calls': model_responded.tool_calls,
            'reasoning': model_responded.reasoning.text
        } as responded,
        { 'action_index': action_finished.action_index, 'result': action_finished.result } as finished
    from events
    where
        type in ('model_called', 'model_responded', 'action_finished')
        and coalesce(model_called.role, model_responded.role, 'agent') = 'agent'
        and stream_id in (select stream_id from trials where trial_state = 'valid')
    order by stream_id, sequence
"""


class Said(NamedTuple):
    """One message of a conversation. ``call_id`` and ``reasoning`` are None except for replies."""

    message: dict[str, Any]
    call_id: str | None = None
    reasoning: str | None = None


def conversations(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Said]]:
    """Return the conversation of each counted attempt by stream id, as OpenAI chat messages."""
    rows = rows_of(connection, _EVENTS)
    return {stream_id: _rebuilt(events) for stream_id, events in groupby(rows, key=lambda row: str(row["stream_id"]))}


def _rebuilt(events: Iterable[Mapping[str, Any]]) -> list[Said]:
    """Rebuild the messages of the main thread up to its last reply, without the calls of other threads."""
    messages: dict[str, list[Said]] = {}
    results: dict[int, str] = {}
    main = last = None
    for event in events:
        called, responded, finished = event["called"], event["responded"], event["finished"]
        if event["type"] == "action_finished":
            results[finished["action_index"]] = finished["result"]
        elif event["type"] == "model_called":
            before = messages[called["parent_call_id"]] if called["parent_call_id"] is not None else []
            new = [Said(_filled(each, results)) for each in json.loads(called["new_messages_json"])]
            messages[called["call_id"]] = before[: called["shared_count"]] + new
            if called["call_kind"] == "main":
                main = called["thread_id"]  # the last one: a router may have come before
            last = called["call_id"] if called["thread_id"] == main else last
        elif responded["call_id"] in messages:
            reply = Said(_reply(responded), responded["call_id"], responded["reasoning"] or None)
            messages[responded["call_id"]] = [*messages[responded["call_id"]], reply]
    return messages[last] if last is not None else []


def _filled(message: dict[str, Any], results: Mapping[int, str]) -> dict[str, Any]:
    """Fill in the text of a message that contains an action's result, which is recorded with the action."""
    if "result_of_action" not in message:
        return message
    rest = {key: value for key, value in message.items() if key not in ("role", "result_of_action")}
    return {"role": message["role"], "content": results[message["result_of_action"]], **rest}


def _reply(responded: Mapping[str, Any]) -> dict[str, Any]:
    calls = [
        {
            "id": call["call_id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments_json"]},
        }
        for call in responded["tool_calls"] or ()
    ]
    return {"role": "assistant", "content": responded["text"], **({"tool_calls": calls} if calls else {})}
