"""Run queries and return their rows as dictionaries. The rows that break a claim have a type of their own."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import duckdb


class BrokenClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that does not hold, with the rows that break it."""

    claim: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def rows_of(connection: "duckdb.DuckDBPyConnection", query: str, parameters: object = None) -> list[dict[str, Any]]:
    result = connection.execute(query, parameters)
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def rows_by_stream(connection: "duckdb.DuckDBPyConnection", query: str) -> defaultdict[str, list[dict[str, Any]]]:
    """Run a query and return its rows by ``stream_id``, in query order."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(connection, query):
        found[row["stream_id"]].append(row)
    return found


def distinct(columns: Sequence[str]) -> list[str]:
    """Append a number to repeated column names, so that no column is lost."""
    names: list[str] = []
    for name in columns:
        number, own = 1, name
        while own in names or (number > 1 and own in columns):
            number += 1
            own = f"{name}_{number}"
        names.append(own)
    return names
