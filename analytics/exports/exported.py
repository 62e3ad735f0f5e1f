"""What an export gives: a JSON document, how many things are in it, and what was left out and why."""

import json
from typing import Any

import duckdb
import msgspec


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """One document; ``left_out`` are sentences for a person."""

    document: Any
    count: int
    what: str
    left_out: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the document as the bytes of its file: JSON in UTF-8, the same for equal documents."""
        return json.dumps(self.document, indent=1, ensure_ascii=False).encode() + b"\n"


def rows_of(connection: duckdb.DuckDBPyConnection, query: str, parameters: object = None) -> list[dict[str, Any]]:
    """Return the rows of a query by column name."""
    found = connection.execute(query, parameters)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
