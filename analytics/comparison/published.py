"""Read the numbers that the papers print from data/published/, and map each number to a cell of our tables."""

import csv
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from lhaw_record.recorder.resources import data_path

AGENT_KEYS = ("agent", "other_agent")
_ABOUT = ("metric", "table", "column", "factor")
Key = str | list[str]


class PrintedFileMapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a file of printed numbers maps to one of our tables. The top of index.toml explains the fields."""

    table: str
    cells: list[dict[str, Any]]
    columns: dict[str, str] = {}
    fixed: dict[str, Key] = {}
    values: dict[str, dict[str, Key]] = {}


class PrintedIndex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of index.toml: ``files`` by name, and in ``models`` the other names of each printed model."""

    files: dict[str, PrintedFileMapping]
    models: dict[str, list[str]]


class PrintedCell(msgspec.Struct, frozen=True, kw_only=True):
    """One value that a paper prints, with its place in our tables. Agent keys hold the printed names of models."""

    table: str
    keys: dict[str, list[str]]
    metric: str
    value: str
    source: str
    column: str
    factor: float


@cache
def index() -> PrintedIndex:
    """Read index.toml, the index of the files with printed numbers."""
    return msgspec.convert(
        tomllib.loads(data_path("published", "index.toml").read_text(encoding="utf-8")), PrintedIndex
    )


@cache
def printed_cells(table: str) -> tuple[PrintedCell, ...]:
    """Return the printed values that correspond to cells of the named table, in the order of their files."""
    return tuple(
        cell
        for name, file in index().files.items()
        for row in read_file(name)
        for cell in _cells(file, row)
        if cell.table == table
    )


def read_file(name: str) -> list[dict[str, str]]:
    """Read a CSV file with printed numbers. All values stay texts."""
    with data_path("published", f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def printed_benchmarks() -> frozenset[str]:
    """Return the benchmarks for which the papers print values."""
    tables = {file.table for file in index().files.values()}
    cells = (cell for table in tables for cell in printed_cells(table))
    return frozenset(value for cell in cells for value in cell.keys["benchmark"]) - {"all"}


@cache
def printed_models() -> dict[str, str]:
    """Map folded model names, including all alternative names, to the names that the papers print."""
    files = index().files
    columns = {name: [key for key, ours in file.columns.items() if ours in AGENT_KEYS] for name, file in files.items()}
    models = {row[column] for name, keys in columns.items() if keys for row in read_file(name) for column in keys}
    further = {folded(name): model for model, names in index().models.items() for name in names}
    return {**{folded(model): model for model in sorted(models)}, **further}


def printed_model(name: str) -> str | None:
    """Return the name under which the papers print a model, or None if they do not mention it."""
    return printed_models().get(folded(name))


def folded(name: str) -> str:
    """Normalize a model name for comparison: lower case, without punctuation, provider and digest."""
    return re.sub(r"[\W_]", "", name.partition("#")[0].rpartition("/")[2].lower())


def _cells(file: PrintedFileMapping, row: Mapping[str, str]) -> Iterator[PrintedCell]:
    sizes = [column for column in row if column.startswith("n_") or column == "n"]
    unused = {column for column, ours in file.columns.items() if not ours}
    left = [column for column in row if column not in (*sizes, "metric", "value", "source", *unused)]
    keys = {
        file.columns.get(column, column): file.values.get(column, {}).get(row[column], row[column]) for column in left
    }
    for cell in file.cells:
        if cell["metric"] != row["metric"]:
            continue
        own = {key: value for key, value in cell.items() if key not in _ABOUT}
        wanted = {**keys, **file.fixed, **own}
        yield PrintedCell(
            table=cell.get("table", file.table),
            keys={key: value if isinstance(value, list) else [value] for key, value in wanted.items()},
            metric=row["metric"],
            value=row["value"],
            source=row["source"],
            column=cell.get("column", "value"),
            factor=cell.get("factor", 1),
        )
