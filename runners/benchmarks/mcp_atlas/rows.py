"""MCP-Atlas rows as published, in any kind of file, as typed rows; the rest of the benchmark sees only these."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from runners.benchmarks.mcp_atlas.cells import RecordedCall, parse_claims, parse_names, parse_trajectory
from runners.benchmarks.published import PublishedError, check_encodable, read_records

_COLUMNS = {
    "task": "task_id",
    "prompt": "prompt",
    "enabled_tools": "enabled_tools",
    "gtfa_claims": "claims",
    "claims": "claims",
    "trajectory": "trajectory",
    "required_servers": "required_servers",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One task row. ``trajectory`` is None where the source has none, ``required_servers`` likewise.

    ``source`` says where it stands, for messages.
    """

    task_id: str
    prompt: str
    claims: tuple[str, ...]
    enabled_tools: tuple[str, ...]
    source: str
    trajectory: tuple[RecordedCall, ...] | None = None
    required_servers: tuple[str, ...] | None = None


def read_rows(paths: Sequence[Path]) -> list[Row]:
    """Return the rows of several files in order; a task that occurs twice is merged into its first row.

    Raises:
        PublishedError: A file or a cell cannot be read, or two rows of one task differ in prompt or claims.
    """
    merged: dict[str, Row] = {}
    for path in paths:
        for place, record in read_records(path):
            row = _row(record, place)
            first = merged.get(row.task_id)
            merged[row.task_id] = row if first is None else _merge(first, row)
    return list(merged.values())


def _merge(first: Row, second: Row) -> Row:
    for column in ("prompt", "claims", "enabled_tools"):
        if getattr(first, column) != getattr(second, column):
            raise PublishedError(
                f"task {first.task_id} occurs twice with another {column}: {first.source} and {second.source}; "
                "leave one of the files out"
            )
    return msgspec.structs.replace(
        first,
        trajectory=first.trajectory if first.trajectory is not None else second.trajectory,
        required_servers=first.required_servers if first.required_servers is not None else second.required_servers,
    )


def _row(record: dict[str, Any], source: str) -> Row:
    try:
        check_encodable(record)
    except ValueError as error:
        raise PublishedError(f"{source}: {error}") from error
    cells = {
        _COLUMNS[key.strip().lower()]: (key, value) for key, value in record.items() if key.strip().lower() in _COLUMNS
    }
    for name in ("task_id", "prompt", "enabled_tools"):
        if name not in cells or cells[name][1] in (None, ""):
            raise PublishedError(f"{source}: no {name.upper()}; columns found: {', '.join(map(str, record))}")

    def parsed(name: str, parse: Any) -> Any:
        if name not in cells or cells[name][1] in (None, ""):
            return None
        column, value = cells[name]
        try:
            return parse(value)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise PublishedError(f"{source}, column {column}: {error}") from error

    return Row(
        task_id=str(cells["task_id"][1]),
        prompt=str(cells["prompt"][1]),
        claims=parsed("claims", parse_claims) or (),
        enabled_tools=parsed("enabled_tools", parse_names),
        trajectory=parsed("trajectory", parse_trajectory),
        required_servers=parsed("required_servers", parse_names),
        source=source,
    )
