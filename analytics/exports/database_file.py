"""The export ``duckdb``: one file with the commented rows of every mart and table, for programs that read DuckDB."""

from pathlib import Path

import duckdb

from lhaw_record.analytics.tables.tables import TABLES
from lhaw_record.analytics.views.headers import ViewHeader, headers
from lhaw_record.analytics.views.store import open as open_store


def database_file(store: Path, target: Path) -> int:
    """Write a new DuckDB file and return its number of tables, 0 if the store has no trials.

    The tables hold results, so the file can be read without our views and macros.
    """
    chosen = [each for each in headers() if each.layer == "marts" or each.view in TABLES]
    with open_store(store, only={each.view for each in chosen}) as connection:
        connection.execute(f"attach {_text(str(target))} as written").fetchall()
        counts = {each.view: _copy(connection, each) for each in chosen}
        connection.execute("detach written").fetchall()
    return len(chosen) if counts["trials"] else 0


def _copy(connection: duckdb.DuckDBPyConnection, header: ViewHeader) -> int:
    """Copy the rows of a view with its comments, and return their number."""
    place = f"written.main.{header.view}"
    query = f"create table {place} as select * from main.{header.view}"  # noqa: S608 - the name of one of our files
    ((count,),) = connection.execute(query).fetchall()
    said = f"A row per {header.grain}. {header.notes} Source: {header.source}"
    connection.execute(f"comment on table {place} is {_text(said)}").fetchall()
    for column in header.columns:
        meaning = f"{column.meaning} ({column.sql_type})"
        connection.execute(f'comment on column {place}."{column.name}" is {_text(meaning)}').fetchall()
    return int(count)


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
