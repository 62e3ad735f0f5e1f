"""Open a store in DuckDB, with every parameter and function of the analysis, and check the claims about it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb

from lhaw_record.analytics.views.at_once import at_once
from lhaw_record.analytics.views.build_order import READ_BY_NOTES, all_views, create_view, query_of, views_by_name
from lhaw_record.analytics.views.database import database_of
from lhaw_record.analytics.views.functions import register
from lhaw_record.analytics.views.parameters import Setting, set_parameters
from lhaw_record.analytics.views.rows import BrokenClaim
from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.files.layout import MARKER
from lhaw_record.recorder.reading.reader import Snapshot, read_snapshot


def open(  # noqa: A001 - reads as stores.open
    path: Path,
    *,
    parameters: Mapping[str, Setting] | None = None,
    only: set[str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a store as it is now and return a connection. See :func:`connect` for the arguments and other errors.

    Raises:
        StoreError: There is no store.
        DamagedStore: A journal is damaged in the middle.
    """
    return connect(read_snapshot(path), parameters=parameters, only=only)


def connect(
    snapshot: Snapshot,
    *,
    parameters: Mapping[str, Setting] | None = None,
    only: set[str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a snapshot of a store in DuckDB and return a connection with ``events``, the macros and the views.

    This function writes nothing and downloads no extension. Close the connection before the program ends.

    Args:
        snapshot: The snapshot of the store.
        parameters: Values that differ from the defaults in :mod:`lhaw_record.analytics.views.parameters`.
        only: The names of the views to create, together with the views that they read. None creates all views.

    Raises:
        UnknownName: A parameter does not exist.
        BadParameter: A parameter does not allow the given value.
        DamagedStore: A file of the store is missing or changed, so its numbers would be wrong.
    """

    def prepare(connection: duckdb.DuckDBPyConnection) -> None:
        register(connection)
        set_parameters(connection, parameters)

    connection = database_of(snapshot, prepare, only)
    if (snapshot.store / MARKER).exists():  # a snapshot in memory has none
        _refuse_repeats(connection, snapshot.store)
    return connection


def _refuse_repeats(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    """Refuse a store in which a stream is twice, because each of its trials would count twice."""
    begun = "select stream_id from events where sequence = 0 group by experiment_id, stream_id having count(*) > 1"
    twice = connection.execute(f"{begun} order by all limit 1").fetchone()
    if twice is not None:
        connection.close()
        raise DamagedStore(
            f"{store}: stream {twice[0]} exists twice, for example because a run continued on a restored backup; "
            "'lhaw-record log verify' names the files, and 'lhaw-record log repair --accept-loss' moves the later ones "
            "out of the way"
        )


def below_tables() -> set[str]:
    """Return the names of all views except tables and claims."""
    return {view.name for view in all_views() if view.layer not in ("tables", "checks")}


def read_for(names: Iterable[str]) -> set[str]:
    """Return the views that tables, figures and claims read, with those that notes read.

    Their queries are run; no view of their own is planned for them. Python may compute a table from any view.
    """
    known = views_by_name()
    return {READ_BY_NOTES}.union(*(known[name].inputs if name in known else below_tables() for name in names))


def recompute(connection: duckdb.DuckDBPyConnection, names: set[str]) -> None:
    """Compute those of these views that are tables again, after a change of the parameters that they depend on."""
    stored = names & {name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()}
    known = views_by_name()
    jobs = {name: known[name].inputs & stored for name in stored}
    at_once(connection, jobs, lambda own, name: create_view(own, "or replace table", known[name], ("events",)))


def claims() -> tuple[str, ...]:
    """Return the names of all claims, in alphabetical order."""
    return tuple(sorted(view.name for view in all_views() if view.layer == "checks"))


def checks(connection: duckdb.DuckDBPyConnection) -> tuple[BrokenClaim, ...]:
    """Check every claim and return those that do not hold, with the rows that break them."""
    checked = at_once(connection, dict.fromkeys(claims(), ()), _check)
    return tuple(checked[claim] for claim in claims() if checked[claim].rows)


def _check(connection: duckdb.DuckDBPyConnection, claim: str) -> BrokenClaim:
    result = connection.execute(f"from ({query_of(claim)}) order by all")
    columns = tuple(column[0] for column in result.description or ())
    return BrokenClaim(claim=claim, columns=columns, rows=tuple(tuple(row) for row in result.fetchall()))
