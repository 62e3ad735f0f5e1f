"""Read the headers of the SQL files and print every view with its grain, columns and source."""

import re
import tempfile
from collections.abc import Sequence
from functools import cache
from textwrap import wrap
from typing import TYPE_CHECKING, TextIO

import msgspec

from lhaw_record.analytics.errors import AnalyticsError, UnknownName
from lhaw_record.analytics.views.build_order import LAYERS, all_views, sql_root
from lhaw_record.recorder.cli.output import print_rows
from lhaw_record.recorder.wording import did_you_mean

if TYPE_CHECKING:
    import duckdb

COLUMNS = ("view", "layer", "grain", "column", "type", "meaning", "source")
SHOWN = ("tables", "marts", "intermediate", "staging", "checks")
"""The layers in print order."""

_KEYS = ("view", "grain", "inputs", "outputs", "equation", "source", "notes")
_RAW = ("events", "live_streams", "open_rows", "sealed_events")
_LONGEST_TYPE = 40


class Column(msgspec.Struct, frozen=True):
    """One column of a view. Its name or meaning gives the unit."""

    name: str
    sql_type: str
    meaning: str


class ViewHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of one SQL file."""

    view: str
    layer: str
    grain: str
    equation: str
    source: str
    notes: str
    columns: tuple[Column, ...]


@cache
def headers() -> tuple[ViewHeader, ...]:
    """Return the header of every view, ordered by layer as in ``SHOWN`` and by name within a layer."""
    found = [_header(view.layer, view.query) for view in all_views()]
    return tuple(sorted(found, key=lambda each: (SHOWN.index(each.layer), each.view)))


def print_views(connection: "duckdb.DuckDBPyConnection", wanted: str, form: str, out: TextIO) -> None:
    """Print the views: as a table their names, or a paragraph per wanted view; as csv or json a row per column."""
    every = (*headers(), *_others(connection))
    chosen = [each for each in every if wanted in ("", each.view, each.layer)]
    if not chosen:
        raise UnknownName(
            f"there is no view or layer {wanted!r}; '.views' lists all views; the layers are {', '.join(LAYERS)}"
        )
    if form == "table" and not wanted:
        print_rows([msgspec.structs.asdict(each) for each in chosen], ("view", "layer", "grain"), form, out)
    elif form == "table":
        out.write("\n".join(map(_paragraph, chosen)))
    else:
        print_rows([row for each in chosen for row in _rows(each)], COLUMNS, form, out)


def failed_query(error: "duckdb.Error") -> AnalyticsError:
    """Return DuckDB's error as ours: with the nearest view, the views to join, or the folder that needs room."""
    import duckdb

    overflow = tempfile.gettempdir()
    if isinstance(error, duckdb.OutOfMemoryException) or f"{overflow}/lhaw-record-" in str(error):
        what = str(error).partition("\n")[0].rstrip(".")
        room = f"data beyond the memory is written to {overflow}; free space there, or name a folder with TMPDIR"
        return AnalyticsError(f"the query failed: {what}; {room}")
    if unknown := re.search(r"Table with name (\w+) does not exist", str(error)):
        near = did_you_mean(unknown[1], [each.view for each in headers()]) or "; '.views' lists them"
        return AnalyticsError(f"there is no view {unknown[1]!r}{near}")
    names = re.findall(r'Referenced column "(\w+)" not found', str(error))
    views = [each.view for each in headers() if {*names} & {column.name for column in each.columns}]
    hint = f"\n{names[0]} is a column of {', '.join(views[:8])}: join one ('.views NAME')" if views else ""
    return AnalyticsError(f"the query failed: {error}{hint}")


def _header(layer: str, query: str) -> ViewHeader:
    """Parse the header of a query. A line that starts neither a key nor a column continues the previous one.

    A line that consists only of names lists columns that the glossary describes.
    """
    texts: dict[str, str] = {}
    columns: list[list[str]] = []
    key = ""
    for line in query.splitlines():
        if not line.startswith("--"):
            break
        if (found := re.match(r"-- (\w+):(.*)", line)) and found[1] in _KEYS:
            key = found[1]
            texts[key] = found[2].strip()
        elif key == "outputs" and (found := re.match(r"--   (\w+) (\S+): (.+)", line)):
            columns.append([found[1], found[2], found[3]])
        elif key == "outputs" and (found := re.fullmatch(r"--   (\w+(?:, \w+)*),?", line)):
            columns += ([name, *_glossary()[name]] for name in found[1].split(", "))
        elif key == "outputs":
            columns[-1][2] += " " + line.removeprefix("--").strip()
        else:
            texts[key] += " " + line.removeprefix("--").strip()
    kept = {name: texts[name] for name in _KEYS if name not in ("inputs", "outputs")}
    return ViewHeader(layer=layer, columns=tuple(Column(*column) for column in columns), **kept)


@cache
def _glossary() -> dict[str, tuple[str, str]]:
    """Return the type and meaning of every column that several views share."""
    lines = (sql_root() / "glossary.txt").read_text(encoding="utf-8").splitlines()
    return {name: (kind.removesuffix(":"), meaning) for name, kind, meaning in (line.split(" ", 2) for line in lines)}


def _others(connection: "duckdb.DuckDBPyConnection") -> list[ViewHeader]:
    """Describe the views and tables without an SQL file: the events, and what a user created."""
    ours = {each.view for each in headers()}
    columns: dict[str, list[Column]] = {}
    for view, column, sql_type in connection.execute(
        "select table_name, column_name, data_type from duckdb_columns() where not internal order by all"
    ).fetchall():
        if view not in ours:
            short = sql_type if len(sql_type) <= _LONGEST_TYPE else sql_type.partition("(")[0] + "(…)"
            columns.setdefault(view, []).append(Column(column, short, ""))
    return [
        ViewHeader(
            view=view,
            layer="events" if view in _RAW else "made here",
            grain="",
            equation="",
            source="docs/log-format.md" if view in _RAW else "",
            notes="",
            columns=tuple(each),
        )
        for view, each in columns.items()
    ]


def _paragraph(header: ViewHeader) -> str:
    width = max((len(column.name) for column in header.columns), default=0)
    types = max((len(column.sql_type) for column in header.columns), default=0)
    grain = f": a row per {header.grain}" if header.grain else ""
    lines = wrap(f"{header.view} ({header.layer}){grain}", 120, subsequent_indent="  ")
    lines += _filled("  equation  ", "" if header.equation == "none" else header.equation)
    lines += _filled("  source    ", header.source)
    lines += _filled("  notes     ", header.notes)
    for column in header.columns:
        label = f"    {column.name:{width}}  {column.sql_type:{types}}  "
        lines += _filled(label, column.meaning) or [label.rstrip()]
    return "\n".join(lines) + "\n"


def _filled(label: str, text: str) -> Sequence[str]:
    return wrap(text, 120, initial_indent=label, subsequent_indent=" " * len(label))


def _rows(header: ViewHeader) -> list[dict[str, str]]:
    shared = {"view": header.view, "layer": header.layer, "grain": header.grain, "source": header.source}
    return [{**shared, "column": each.name, "type": each.sql_type, "meaning": each.meaning} for each in header.columns]
