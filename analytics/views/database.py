"""Open a snapshot of a store in DuckDB, with the event stream as one view and all other views on top of it."""

import re
import resource
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pyarrow as pa

from lhaw_record.analytics.views.build_order import create_macros, create_views, empty_database
from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.files.layout import MARKER
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.storage.manifest_check import check_manifest
from lhaw_record.recorder.storage.segments import where_now
from lhaw_record.recorder.storage.store import Store

_OPEN_FILES = Path("/proc/self/fd")
_SMALL_BYTES, _SMALL_ROWS = 1_500_000, 20_000
"""Limits for loading segments and open rows into memory. If a store has both, their shares of the limits add up."""


def database_of(
    snapshot: Snapshot, prepare: Callable[[duckdb.DuckDBPyConnection], None], only: set[str] | None
) -> duckdb.DuckDBPyConnection:
    """Return a connection with ``events``, the macros and the views. ``prepare`` sets variables and adds functions."""
    if (snapshot.store / MARKER).exists():  # a snapshot in memory has none
        check_manifest(Store(snapshot.store))
    connection = empty_database()
    try:
        prepare(connection)
        connection.execute("set parquet_metadata_cache = true").fetchall()
        try:
            parts = _create_events(connection, snapshot)
        except duckdb.Error as error:
            raise DamagedStore(f"{snapshot.store}: {error}; 'lhaw-record log verify' names the file") from error
        live = pa.table({"stream_id": pa.array(sorted(snapshot.live_streams), pa.string())})
        _load(connection, "live_streams", live)
        create_macros(connection)
        create_views(connection, only, parts)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_events(connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> tuple[str, ...]:
    """Create ``events`` and return the names of the parts that hold its rows, from which staging views read.

    A small store is loaded once and read by one thread, because opening files, binding types and starting threads for
    every query would take most of the time.
    """
    segments = _held_open(connection, snapshot.segments)
    connection.register("open_rows", snapshot.open_rows)
    all_events = "from sealed_events union all by name from open_rows"
    sealed_bytes = sum(path.stat().st_size for path in segments)
    if sealed_bytes / _SMALL_BYTES + snapshot.open_rows.num_rows / _SMALL_ROWS <= 1:
        connection.execute("set threads = 1").fetchall()
        sealed = _sealed_query(segments)
        connection.execute(f"create table events as with sealed_events as ({sealed}) {all_events}").fetchall()
        return ("events",)
    connection.unregister("open_rows")
    _load(connection, "open_rows", snapshot.open_rows)
    connection.execute(f"create view sealed_events as {_sealed_query(segments)}").fetchall()
    connection.execute(f"create view events as {all_events}").fetchall()
    return ("sealed_events", "open_rows") if snapshot.open_rows.num_rows else ("sealed_events",)


def _held_open(connection: duckdb.DuckDBPyConnection, segments: Sequence[Path]) -> list[Path]:
    """Return paths of the segments that stay readable as long as the connection exists.

    DuckDB opens the files by path for every query, but compaction may replace them in between. If the system has /proc
    and allows enough open files, this function keeps the files open and returns paths of their descriptors.
    """
    paths = [where_now(path) for path in segments]
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not _OPEN_FILES.is_dir() or (most != resource.RLIM_INFINITY and 2 * len(paths) > most):
        return paths
    with ExitStack() as opened:
        files = [opened.enter_context(path.open("rb")) for path in paths]
        weakref.finalize(connection, opened.pop_all().close)
    return [_OPEN_FILES / str(file.fileno()) for file in files]


def _load(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Create a table that all connections see. A registered table would be visible only to its own connection."""
    connection.register("loaded", rows)
    connection.execute(f"create table {name} as from loaded").fetchall()
    connection.unregister("loaded")


def _sealed_query(paths: Sequence[Path]) -> str:
    if not paths:
        return "from open_rows limit 0"
    files = ", ".join(_file_literal(path) for path in paths)
    return f"from read_parquet([{files}], union_by_name = true, hive_partitioning = false)"


def _file_literal(path: Path) -> str:
    """Quote a path as an SQL string and escape its wildcard characters."""
    escaped = re.sub(r"([\[*?])", r"[\1]", str(path))
    return _literal(escaped)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
