"""Numbers from the event stream: a store opened in DuckDB, the reported tables, and the claims that must hold."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.checks import Finding, checks
from analytics.errors import AnalyticsError, BadParameter, UnknownName
from analytics.parameters import PARAMETERS, Parameter, Setting
from analytics.tables import TABLES, Table, comparable, table

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "PARAMETERS",
    "TABLES",
    "AnalyticsError",
    "BadParameter",
    "Finding",
    "Parameter",
    "Table",
    "UnknownName",
    "checks",
    "comparable",
    "open",
    "table",
]


def open(  # noqa: A001 - reads as analytics.open
    path: str | Path, parameters: Mapping[str, Setting] | None = None
) -> "duckdb.DuckDBPyConnection":
    """Return a DuckDB connection to a store as it is now, with the event stream and every view.

    Close it before the program ends; a ``with`` statement does. The views of a store:
    ``lhaw-record sql STORE -c .views``.

        with analytics.open("stores/demo") as store:
            store.sql("select * from overall").pl()          # Polars
            store.sql("select * from trials").df()           # pandas
            store.sql("select * from actions").to_arrow_table()
            store.sql("from pass_at_k where n_trials = ?", params=[3]).fetchall()

    Args:
        path: The store's directory.
        parameters: Readings that differ from the defaults, for example ``{"per": "segment"}``; see ``PARAMETERS``.

    Raises:
        UnknownName: A parameter does not exist.
        BadParameter: A parameter does not allow its value.
        StoreError: There is no store.
    """
    from analytics import store  # DuckDB is loaded when it is needed

    return store.open(Path(path), parameters=parameters)
