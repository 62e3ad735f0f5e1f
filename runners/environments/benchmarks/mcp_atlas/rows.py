"""Read published MCP-Atlas rows from files, and turn them into typed rows and tasks.

Cells are parsed, never evaluated.
"""

import ast
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.runners.environments.benchmarks.published import PublishedError, check_encodable, read_records
from lhaw_record.runners.models.chat_completions import text_of

_LIST_MARKER = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.)])\s+")


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of a reference trajectory. ``result`` is None if no result was recorded."""

    name: str
    arguments: dict[str, Any]
    result: str | None


def literal(cell: Any) -> Any:
    """Return the value of a cell. A string is parsed as JSON or as a Python literal, and never evaluated."""
    if not isinstance(cell, str):
        return cell
    try:
        return json.loads(cell)
    except ValueError:
        pass
    try:
        return ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"neither JSON nor a Python literal: {str(cell).strip()[:60]!r}") from error


def parse_claims(cell: Any) -> tuple[str, ...]:
    """Return the claims in a cell: a list of strings or ``{claim, essential}`` objects, or a numbered or
    bulleted text.
    """
    try:
        value = literal(cell)
    except ValueError:
        if str(cell).lstrip().startswith(("[", "{")):
            raise
        value = _listed_text(str(cell))
    if isinstance(value, str):
        value = _listed_text(value)
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of claims, found {type(value).__name__}")  # noqa: TRY004  # one error class
    claims: list[str] = []
    for number, item in enumerate(value, start=1):
        claim = item.get("claim") if isinstance(item, dict) else item
        if not isinstance(claim, str) or not claim.strip():
            raise ValueError(f"claim {number} is not a text")
        claims.append(claim.strip())
    return tuple(claims)


def _listed_text(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not any(_LIST_MARKER.match(line) for line in lines):
        return [text] if text.strip() else []
    claims: list[str] = []
    for line in lines:
        if _LIST_MARKER.match(line) or not claims:
            claims.append(_LIST_MARKER.sub("", line).strip())
        else:
            claims[-1] += " " + line.strip()  # a claim that continues on the next line
    return claims


def parse_names(cell: Any) -> tuple[str, ...]:
    """Return a list of names, given as strings or as objects with a ``name``."""
    value = literal(cell)
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of names, found {type(value).__name__}")  # noqa: TRY004  # one error class
    names: list[str] = []
    for number, item in enumerate(value, start=1):
        name = item.get("name") if isinstance(item, dict) else item
        if not isinstance(name, str):
            raise ValueError(f"entry {number} has no name")  # noqa: TRY004  # one error class
        names.append(name)
    return tuple(names)


def parse_trajectory(cell: Any) -> tuple[RecordedCall, ...]:
    """Return the tool calls of a recorded conversation with their results, joined by call id."""
    messages = literal(cell)
    if not isinstance(messages, list):
        raise ValueError(f"expected a list of messages, found {type(messages).__name__}")  # noqa: TRY004  # one error class
    results = {str(m["tool_call_id"]): text_of(m.get("content")) for m in messages if m.get("role") == "tool"}
    calls = []
    for number, message in enumerate(messages, start=1):
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = function.get("arguments") or "{}"
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
            if not isinstance(arguments, dict):
                raise ValueError(f"message {number}: the arguments of {function['name']} are not a JSON object")  # noqa: TRY004
            calls.append(
                RecordedCall(name=function["name"], arguments=arguments, result=results.get(str(call.get("id"))))
            )
    return tuple(calls)


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
    """One row. ``trajectory`` and ``required_servers`` are None if the source does not have them.

    ``source`` is the row's place in its file, for messages.
    """

    task_id: str
    prompt: str
    claims: tuple[str, ...]
    enabled_tools: tuple[str, ...]
    source: str
    trajectory: tuple[RecordedCall, ...] | None = None
    required_servers: tuple[str, ...] | None = None


def read_rows(paths: Sequence[Path]) -> list[Row]:
    """Return the rows of several files in order. A task that occurs twice is merged into its first row."""
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


BENCHMARK = "mcp_atlas"
VERSION = "1"
LICENCE = "CC-BY-4.0"


def task_of(row: Row, environment_digest: str) -> Task:
    """Return the task of a row. ``environment_digest`` may be empty if the environment is unknown."""
    return Task(
        benchmark=BENCHMARK,
        benchmark_version=VERSION,
        task_id=row.task_id,
        prompt=row.prompt,
        checkpoints=tuple(
            Checkpoint(checkpoint_id=f"c{number}", label=claim) for number, claim in enumerate(row.claims, start=1)
        ),
        environment_digest=environment_digest,
        licence=LICENCE,
    )
