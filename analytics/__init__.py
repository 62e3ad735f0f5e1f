"""Compute numbers from the event stream: open a store in DuckDB, build its tables, and check its claims."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from lhaw_record.analytics.errors import AnalyticsError, BadParameter, UnknownName

if TYPE_CHECKING:
    import duckdb

    from lhaw_record.analytics.tables.tables import TABLES, Table, comparable, table
    from lhaw_record.analytics.views.parameters import PARAMETERS, AnalysisParameter, Setting
    from lhaw_record.analytics.views.rows import BrokenClaim
    from lhaw_record.analytics.views.store import checks

__all__ = [
    "PARAMETERS",
    "TABLES",
    "AnalysisParameter",
    "AnalyticsError",
    "BadParameter",
    "BrokenClaim",
    "Table",
    "UnknownName",
    "checks",
    "comparable",
    "open",
    "table",
]

_MODULES = {
    "tables.tables": ("TABLES", "Table", "comparable", "table"),
    "views.rows": ("BrokenClaim",),
    "views.store": ("checks",),
    "views.parameters": ("PARAMETERS", "AnalysisParameter"),
}
"""Public names that are imported on first use, because every command imports this package."""


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"analytics.{module}"), name)
    raise AttributeError(f"module 'analytics' has no attribute {name!r}")


def open(  # noqa: A001 - reads as analytics.open
    path: str | Path, parameters: "Mapping[str, Setting] | None" = None
) -> "duckdb.DuckDBPyConnection":
    """Open a store as it is now and return a DuckDB connection with the event stream and every view.

    Close the connection before the program ends, for example with a ``with`` statement. The command
    ``lhaw-record sql STORE -c .views`` lists the views.

        with analytics.open("stores/demo") as store:
            store.sql("select * from overall").pl()          # Polars
            store.sql("select * from trials").df()           # pandas
            store.sql("select * from actions").to_arrow_table()
            store.sql("from pass_at_k where n_trials = ?", params=[3]).fetchall()

    Args:
        path: The store's directory.
        parameters: Values that differ from the defaults, for example ``{"per": "segment"}``. ``PARAMETERS`` lists them.

    Raises:
        UnknownName: A parameter does not exist.
        BadParameter: A parameter does not allow the given value.
        StoreError: ``path`` holds no store.
    """
    from lhaw_record.analytics.views import store  # DuckDB is loaded when it is needed

    return store.open(Path(path), parameters=parameters)
