"""The actions of the attempts that count, by stream and in order."""

import json
from collections import defaultdict
from typing import Any

import duckdb

from analytics.exports.exported import rows_of

_ACTIONS = """
    select stream_id, action_index, kind, action_name, arguments_json, result, is_error
    from actions
    where is_counted
    order by stream_id, action_index
"""


def actions(connection: duckdb.DuckDBPyConnection) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the view ``actions``, with the arguments as JSON, or as their raw text where malformed."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(connection, _ACTIONS):
        text = row.pop("arguments_json")
        row["arguments"] = text if row["kind"] == "malformed" else json.loads(text)
        found[row.pop("stream_id")].append(row)
    return found
