"""Check the claims that must hold for every store. Each claim is a query that returns the rows that break it."""

from typing import TYPE_CHECKING

import msgspec

from lhaw_record.analytics.views.at_once import at_once
from lhaw_record.analytics.views.build_order import all_views, query_of

if TYPE_CHECKING:
    import duckdb


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that does not hold, with the rows that break it."""

    claim: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def claims() -> tuple[str, ...]:
    """Return the names of all claims, in alphabetical order."""
    return tuple(sorted(view.name for view in all_views() if view.layer == "checks"))


def checks(connection: "duckdb.DuckDBPyConnection") -> tuple[Finding, ...]:
    """Check every claim and return those that do not hold, with the rows that break them."""
    checked = at_once(connection, dict.fromkeys(claims(), ()), _check)
    return tuple(checked[claim] for claim in claims() if checked[claim].rows)


def _check(connection: "duckdb.DuckDBPyConnection", claim: str) -> Finding:
    result = connection.execute(f"from ({query_of(claim)}) order by all")
    columns = tuple(column[0] for column in result.description or ())
    return Finding(claim=claim, columns=columns, rows=tuple(tuple(row) for row in result.fetchall()))
