"""MCP-Atlas rows as published, in CSV or JSON lines, as typed rows; the rest of the benchmark sees only these."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runners.benchmarks.mcp_atlas.cells import RecordedCall, parse_claims, parse_names, parse_trajectory
from runners.errors import ExperimentError

# Trajectory cells reach 741,493 characters; the csv module's own limit is 131,072.
CSV_FIELD_LIMIT = 1 << 30
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


class RowsError(ExperimentError):
    """A rows file cannot be understood; the message names file, row and column."""


def read_rows(paths: Sequence[Path]) -> list[Row]:
    """Return the rows of several files in order; a task that occurs twice is merged into its first row.

    Raises:
        RowsError: A file or a cell cannot be read, or two rows of one task differ in prompt or claims.
    """
    merged: dict[str, Row] = {}
    for path in paths:
        for row in _read_file(path):
            first = merged.get(row.task_id)
            merged[row.task_id] = row if first is None else _merge(first, row)
    return list(merged.values())


def _merge(first: Row, second: Row) -> Row:
    for column in ("prompt", "claims", "enabled_tools"):
        if getattr(first, column) != getattr(second, column):
            raise RowsError(
                f"task {first.task_id} occurs twice with another {column}: {first.source} and {second.source}; "
                "leave one of the files out"
            )
    return msgspec.structs.replace(
        first,
        trajectory=first.trajectory if first.trajectory is not None else second.trajectory,
        required_servers=first.required_servers if first.required_servers is not None else second.required_servers,
    )


def _read_file(path: Path) -> Iterator[Row]:
    try:
        records = _json_lines(path) if path.suffix in (".jsonl", ".ndjson") else _csv_records(path)
        for position, record in records:
            yield _row(record, f"{path.name}, {position}")
    except OSError as error:
        raise RowsError(
            f"cannot read the rows file {path}: {error.strerror or error}; check `rows` under [benchmark]"
        ) from error
    except UnicodeDecodeError as error:
        raise RowsError(f"{path}: not UTF-8 at byte {error.start}; rows files are UTF-8 text") from error


def _csv_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    previous = csv.field_size_limit(CSV_FIELD_LIMIT)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # cells hold line ends
            reader = csv.DictReader(file, strict=True)
            for number, record in enumerate(reader, start=1):
                if None in record or None in record.values():
                    raise RowsError(f"{path.name}, row {number}: the number of cells differs from the header's")
                yield f"row {number}", record
    except csv.Error as error:
        raise RowsError(f"{path.name}: broken CSV: {error}") from error
    finally:
        csv.field_size_limit(previous)


def _json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise RowsError(f"{path.name}, line {number}: not JSON: {error}") from error
            if not isinstance(record, dict):
                raise RowsError(f"{path.name}, line {number}: expected a JSON object, found {type(record).__name__}")
            yield f"line {number}", record


def _row(record: dict[str, Any], source: str) -> Row:
    cells = {
        _COLUMNS[key.strip().lower()]: (key, value) for key, value in record.items() if key.strip().lower() in _COLUMNS
    }
    for name in ("task_id", "prompt", "enabled_tools"):
        if name not in cells or cells[name][1] in (None, ""):
            raise RowsError(f"{source}: no {name.upper()}; columns found: {', '.join(map(str, record))}")

    def parsed(name: str, parse: Any) -> Any:
        if name not in cells or cells[name][1] in (None, ""):
            return None
        column, value = cells[name]
        try:
            return parse(value)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RowsError(f"{source}, column {column}: {error}") from error

    return Row(
        task_id=str(cells["task_id"][1]),
        prompt=str(cells["prompt"][1]),
        claims=parsed("claims", parse_claims) or (),
        enabled_tools=parsed("enabled_tools", parse_names),
        trajectory=parsed("trajectory", parse_trajectory),
        required_servers=parsed("required_servers", parse_names),
        source=source,
    )
