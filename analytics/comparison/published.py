"""Compare our tables with the numbers that the papers print, which are in data/published/."""

import csv
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.tables.tables import Row, Table
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
    """The contents of index.toml: ``files`` by name, and ``models`` with other names of each printed model."""

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
    """Return the printed values that correspond to cells of the named table, in file order."""
    return tuple(
        cell
        for name, file in index().files.items()
        for row in read_file(name)
        for cell in _cells(file, row)
        if cell.table == table
    )


def read_file(name: str) -> list[dict[str, str]]:
    """Read a CSV file with printed numbers. All values remain texts."""
    with data_path("published", f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def printed_tables(paper: str = "") -> tuple[str, ...]:
    """Return our tables for which a paper prints values, or either paper if none is named."""
    tables = dict.fromkeys(cell.get("table", file.table) for file in index().files.values() for cell in file.cells)
    return tuple(name for name in tables if any(cell.source.startswith(paper) for cell in printed_cells(name)))


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


COLUMNS = (
    *("table", "keys", "measure", "metric", "ours", "low", "high", "printed", "difference"),
    *("is_within", "is_as_printed", "source", "reason"),
)
_SLACK = 1e-6
"""The tolerance of comparisons, because our values are rounded to six decimals."""


def comparison(tables: Sequence[Table], printed_as: Sequence[str] = ()) -> Table:
    """Return a table with one row for each of our cells that the papers also print.

    Our values are converted to the unit that the paper prints.
    """
    agents = _agents(tables)
    models = {agent: model for agent in agents if (model := printed_model(agent)) is not None}
    models |= _chosen(printed_as, agents)
    rows = [row for table in tables for cell in printed_cells(table.name) for row in _compared(table, cell, models)]
    return Table(
        name="comparison",
        title="Ours beside the printed values",
        keys=("table", "keys", "measure"),
        columns=COLUMNS,
        rows=tuple(rows),
        notes=_notes(tables, rows, models, agents),
        reading=tables[0].reading if tables else "default",
    )


def comparison_of(table: Table, paper: str) -> Table:
    """Return one table of a paper, ours beside it: a row for each of our cells that the paper prints."""
    found = comparison([table])
    rows = tuple(row for row in found.rows if row["source"].startswith(paper))
    sources = ", ".join(dict.fromkeys(row["source"] for row in rows)) or paper
    title = f"{table.title}, ours beside the printed values ({sources})"
    return msgspec.structs.replace(
        found, name=table.name, title=title, keys=found.keys[1:], columns=COLUMNS[1:], rows=rows
    )


def _compared(table: Table, cell: PrintedCell, models: Mapping[str, str]) -> Iterator[Row]:
    found = [row for row in table.rows if _is_meant(row, cell, models)]
    if found and not set(cell.keys["benchmark"]) <= {row.get("benchmark") for row in table.rows}:
        return  # a sum over fewer benchmarks is not comparable
    if found and (cell.column.startswith("n_") or any(len(values) > 1 for values in cell.keys.values())):
        total = sum(row[cell.column] or 0 for row in found)
        keys = {key: " + ".join(values) for key, values in cell.keys.items()}
        yield _row(table, cell, {**keys, cell.column: total, "measure": keys.get("measure", cell.column)})
        return
    for row in found:
        yield _row(table, cell, row)


def _row(table: Table, cell: PrintedCell, ours: Row) -> Row:
    value = _times(ours.get(cell.column), cell.factor)
    low, high = (_times(ours.get(name), cell.factor) if cell.column == "value" else None for name in ("low", "high"))
    printed, places = _number(cell.value)
    slack = _SLACK * cell.factor
    difference = is_within = is_as_printed = None
    if value is not None and printed is not None:
        is_bound = cell.value.startswith("<")
        difference = None if is_bound else round(value - printed, 6)
        is_as_printed = value < printed if is_bound else abs(value - printed) <= 0.5 * 10**-places + slack
        is_within = None if low is None or high is None else low - slack <= printed <= high + slack
    return {
        "table": table.name,
        "keys": " ".join(f"{key}={ours[key]}" for key in table.keys if key != "measure" and key in ours),
        "measure": ours.get("measure", cell.column),
        "metric": cell.metric,
        "ours": value,
        "low": low,
        "high": high,
        "printed": cell.value or None,
        "difference": difference,
        "is_within": is_within,
        "is_as_printed": is_as_printed,
        "source": cell.source,
        "reason": ours.get("reason"),
    }


def _is_meant(row: Row, cell: PrintedCell, models: Mapping[str, str]) -> bool:
    """Return whether one of our rows corresponds to a printed cell. A pair of agents may be in either order."""
    plain = {key: values for key, values in cell.keys.items() if key not in AGENT_KEYS}
    if any(str(row.get(key)) not in values for key, values in plain.items()):
        return False
    wanted = [cell.keys[key][0] for key in AGENT_KEYS if key in cell.keys]
    present = [_names(row, key, models) for key in AGENT_KEYS if key in cell.keys]
    orders = (wanted, wanted[::-1])
    return any(all(name in names for name, names in zip(order, present, strict=True)) for order in orders)


def _names(row: Row, key: str, models: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return the names that the papers may use for a row's agent: its own name and the name of its model."""
    own = models.get(row[key], row[key])
    return (own, printed_model(row["model"])) if key == "agent" and row.get("model") else (own,)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else round(value * factor, 6)


def _number(text: str) -> tuple[float | None, int]:
    """Parse a printed number. Return its value, None if nothing is printed, and its number of decimals."""
    digits = text.removeprefix("<")
    return (float(digits), len(digits.partition(".")[2])) if digits else (None, 0)


def _agents(tables: Sequence[Table]) -> list[str]:
    found = {row[key] for table in tables for key in AGENT_KEYS if key in table.columns for row in table.rows}
    return sorted(found - {"all"})


def _chosen(printed_as: Sequence[str], agents: Sequence[str]) -> dict[str, str]:
    chosen = {}
    for text in printed_as:
        agent, _, name = (part.strip() for part in text.partition("="))
        model = printed_model(name)
        if model is None:
            known = ", ".join(sorted(set(printed_models().values())))
            raise UnknownName(f"no printed table has a model {name!r} (--printed-as AGENT=MODEL); known: {known}")
        if agent not in agents:
            raise UnknownName(f"these tables have no agent {agent!r}; they have: {', '.join(agents) or 'none'}")
        chosen[agent] = model
    return chosen


def _notes(
    tables: Sequence[Table], rows: Sequence[Row], models: Mapping[str, str], agents: Sequence[str]
) -> tuple[str, ...]:
    notes = [
        "ours, low and high have the unit of metric; printed has the paper's digits and is empty if it prints none",
        "is_within: the printed value is in the interval; is_as_printed: it equals ours, rounded to the printed digits",
        "some printed tables contradict each other (data/published/README.md), so do not expect equal values",
    ]
    if models:
        notes.append("printed as: " + ", ".join(f"{agent} = {model}" for agent, model in sorted(models.items())))
    others = [agent for agent in agents if agent not in models]
    if others:
        notes.append(f"no paper prints these agents (--printed-as AGENT=MODEL names their models): {', '.join(others)}")
    seen = {row["table"] for row in rows}
    if missing := [table.name for table in tables if table.name not in seen]:
        known = ", ".join(sorted(printed_benchmarks()))
        notes.append(f"no printed values for: {', '.join(missing)}; the papers have the benchmarks {known}")
    return tuple(notes)
