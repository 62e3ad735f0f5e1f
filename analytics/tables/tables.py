"""Compute a reported table, with rows in a fixed order and with notes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from lhaw_record.analytics.tables.catalogue import ORDERS, SPECS, TableSpec, spec_of
from lhaw_record.analytics.tables.notes import Background, background, missing_notes, notes_for
from lhaw_record.analytics.views.at_once import at_once
from lhaw_record.analytics.views.build_order import query_of
from lhaw_record.analytics.views.parameters import reading_of

if TYPE_CHECKING:
    import duckdb

Row = dict[str, Any]

TABLES: tuple[str, ...] = tuple(spec.name for spec in SPECS if spec.compute is None)
"""The names of the tables that are SQL queries, in print order."""

COMPUTED_TABLES: tuple[str, ...] = tuple(spec.name for spec in SPECS if spec.compute is not None)
"""The names of the tables that Python computes. They take longer and are computed only on request."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A computed table. Undefined values are None. ``reading`` names the analysis choices behind the numbers."""

    name: str
    title: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    shown: tuple[str, ...] = ()
    reading: str = "default"


def table(connection: "duckdb.DuckDBPyConnection", name: str) -> Table:
    """Compute the named table. See :func:`tables`."""
    return tables(connection, [name])[0]


def tables(connection: "duckdb.DuckDBPyConnection", names: Iterable[str]) -> list[Table]:
    """Compute the named tables. The connection needs only the views that the tables and the notes read."""
    chosen = [spec_of(name) for name in names]
    found = background(connection)
    queries = {spec.name: () for spec in chosen if spec.compute is None}
    done = at_once(connection, queries, lambda own, name: _table(own, spec_of(name), found))
    return [done.get(spec.name) or _table(connection, spec, found) for spec in chosen]


def _table(connection: "duckdb.DuckDBPyConnection", spec: TableSpec, found: Background) -> Table:
    if spec.compute is not None:
        connection.register(spec.name, spec.compute(connection))
    result = connection.execute(query_of(spec.name) if spec.compute is None else f"from {spec.name}")
    columns = tuple(column[0] for column in result.description or ())
    rows = [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
    rows.sort(key=lambda row: tuple(rank(key, row[key]) for key in spec.keys))
    return Table(
        name=spec.name,
        title=spec.title,
        keys=spec.keys,
        columns=columns,
        rows=tuple(rows),
        notes=(
            *notes_for(found, spec.name, spec.parameters, rows),
            *missing_notes(spec.needs, spec.conditions, rows),
        ),
        shown=spec.shown,
        reading=reading_of(found.values),
    )


def comparable(one: Table) -> Table:
    """Return a table without the columns that depend on the machine or on interruptions, and without notes.

    These columns are ``attempts``, ``n_runs``, ``failed_*`` and ``*_seconds``. If the models are deterministic, the
    other columns are the same whether or not a run was interrupted and resumed.
    """
    kept = tuple(column for column in one.columns if not _is_excepted(column))
    rows = tuple({column: row[column] for column in kept} for row in one.rows)
    return msgspec.structs.replace(one, columns=kept, rows=rows, notes=())


def _is_excepted(column: str) -> bool:
    return column in ("attempts", "n_runs") or column.startswith("failed_") or column.endswith("_seconds")


def rank(key: str, value: Any) -> tuple[bool, int, str]:
    """Return a sort key: null, known values in their order, others by name, then ``all`` if the order lacks it."""
    order = ORDERS.get(key, ())
    if value is None:
        return False, -1, ""
    return value == "all" and value not in order, order.index(value) if value in order else len(order), value
