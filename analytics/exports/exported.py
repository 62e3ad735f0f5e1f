"""What an export gives: a JSON document, how many things are in it, and what was left out and why."""

from typing import Any

import duckdb
import msgspec


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """One document; ``left_out`` are sentences for a person."""

    document: Any
    count: int
    what: str
    left_out: tuple[str, ...] = ()


def rows_of(connection: duckdb.DuckDBPyConnection, query: str, parameters: object = None) -> list[dict[str, Any]]:
    """Return the rows of a query by column name."""
    found = connection.execute(query, parameters)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
