"""Build the views from the SQL files, ordered by the inputs in their headers."""

import re
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lhaw_record.analytics.views.at_once import at_once

if TYPE_CHECKING:
    import duckdb

LAYERS = ("staging", "intermediate", "marts", "tables", "checks")
_STORED = ("intermediate", "marts")
_RARE = 0.1
"""Event types up to this share of all events are read once. For other types, only the needed fields are read."""
READ_BY_NOTES = "exclusions"
_ALL_READ_BY_NOTES = frozenset({READ_BY_NOTES, "arm_cautions", "questions"})
_EVENT_TYPE = re.compile(r"\bwhere type = '(\w+)'")
_INPUTS = re.compile(r"^-- inputs: (.*(?:\n--  .*)*)", re.MULTILINE)


def sql_root() -> Path:
    """Return the folder of the SQL files, which is inside the wheel or at the top level of a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "sql"
    root = installed if installed.is_dir() else package.parent / "sql"
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing; reinstall lhaw-record")
    return root


class ViewFile(msgspec.Struct, frozen=True, kw_only=True):
    """One SQL file. ``inputs`` are the views and tables that its query reads."""

    name: str
    layer: str
    query: str
    inputs: frozenset[str]


_NOT_WORTH_PLANNING = {
    *("aggregate_function_rewriter", "aggregate_reuse", "common_subplan", "compressed_materialization"),
    *("distinct_aggregate_rewrite", "duplicate_groups", "empty_result_pullup", "extension"),
    *("grouping_sets", "join_elimination", "late_materialization", "limit_pushdown"),
    *("outer_join_simplification", "partial_aggregate_pushdown", "partitioned_execution"),
    *("projection_placement", "redundant_order_keys", "regex_range", "remote_pushdown"),
    *("sampling_pushdown", "scalar_fn_pushdown", "statistics_propagation", "top_n_window_elimination"),
    *("type_pushdown", "window_rewriter", "window_self_join"),
}
"""Optimizer steps of DuckDB that take a twelfth of the time of all table queries and save less."""


def empty_database() -> "duckdb.DuckDBPyConnection":
    """Open an empty in-memory database that never downloads an extension.

    What does not fit into memory goes to a folder that disappears with the connection.
    """
    import duckdb

    overflow = tempfile.TemporaryDirectory(prefix="lhaw-record-", ignore_cleanup_errors=True)
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "async_threads": "0",  # these threads busy-wait, which takes a sixth of all processor time
            "temp_directory": overflow.name,
        }
    )
    weakref.finalize(connection, overflow.cleanup)
    known = {name for (name,) in connection.execute("from duckdb_optimizers()").fetchall()}  # each version has its own
    connection.execute(f"set disabled_optimizers = '{','.join(_NOT_WORTH_PLANNING & known)}'").fetchall()
    return connection


@cache
def all_views() -> tuple[ViewFile, ...]:
    """Return every view, each after the views that it reads."""
    found = {view.name: view for view in _read_all()}
    order = TopologicalSorter({name: view.inputs & found.keys() for name, view in found.items()})
    return tuple(found[name] for name in order.static_order())


def query_of(name: str) -> str:
    return views_by_name()[name].query


@cache
def views_by_name() -> dict[str, ViewFile]:
    return {view.name: view for view in all_views()}


def needed_for(names: set[str]) -> set[str]:
    """Return these view names and the names of everything that the views read, directly or indirectly."""
    needed = set(names) | (_ALL_READ_BY_NOTES if READ_BY_NOTES in names else frozenset())
    for view in reversed(all_views()):
        if view.name in needed:
            needed |= view.inputs
    return needed


def named_in(query: str) -> set[str] | None:
    """Return the names of the views that a query mentions, or None, meaning all views, if it is not a plain query."""
    if not re.match(r"\s*(select|with|from)\b", query, re.IGNORECASE) or "duckdb_" in query:
        return None
    words = set(re.findall(r"\w+", query.lower()))
    return {view.name for view in all_views() if view.name in words}


def that_depend_on(parameter: str) -> set[str]:
    """Return the names of the views that read a parameter directly, through a macro, or through another view."""
    reading = f"getvariable('{parameter}')"
    macros: set[str] = set()
    for name, body in _macros().items():
        if reading in body or _calls(body, macros):
            macros.add(name)
    found: set[str] = set()
    for view in all_views():
        if reading in view.query or _calls(view.query, macros) or view.inputs & found:
            found.add(view.name)
    return found


def create_macros(connection: "duckdb.DuckDBPyConnection") -> None:
    """Create the macros that the queries share."""
    for body in _macros().values():
        connection.execute(body).fetchall()


@cache
def _macros() -> dict[str, str]:
    """Return the SQL of the macros by name, each after the macros that it calls."""
    bodies = {path.stem: path.read_text(encoding="utf-8") for path in sorted((sql_root() / "macros").glob("*.sql"))}
    calls = {name: _calls(body, bodies.keys()) - {name} for name, body in bodies.items()}
    return {name: bodies[name] for name in TopologicalSorter(calls).static_order()}


def _calls(query: str, macros: Iterable[str]) -> set[str]:
    return {name for name in macros if f"{name}(" in query}


def create_views(
    connection: "duckdb.DuckDBPyConnection", only: set[str] | None = None, parts: Sequence[str] = ("events",)
) -> None:
    """Create the views in dependency order, in parallel.

    Intermediate views and marts that other views read become tables, so that each is computed once. As plain views,
    they would be inlined and planned repeatedly, and computing a table would take minutes. If the events are in
    Parquet, staging views of rare event types become tables, too, and staging views of absent types read no file.
    """
    wanted = None if only is None else needed_for(only)
    chosen = [view for view in all_views() if wanted is None or view.name in wanted]
    read_by_others = {*_ALL_READ_BY_NOTES, *(name for view in all_views() for name in view.inputs)}
    stored = {view.name for view in chosen if view.layer in _STORED and view.name in read_by_others}
    staging = [view for view in chosen if view.layer == "staging"]
    places = {view.name: parts for view in staging}
    if staging and "events" not in parts:
        counts = dict(connection.execute("select type, count(*) from events group by type").fetchall())
        connection.execute("create table no_events as from events limit 0").fetchall()
        for view in staging:
            count = counts.get(_event_type(view), 0)
            if count == 0:
                places[view.name] = ("no_events",)
            elif count <= _RARE * sum(counts.values()):
                stored.add(view.name)
    for view in staging:
        if view.name not in stored:
            create_view(connection, "view", view, places[view.name])
    at_once(
        connection,
        {view.name: view.inputs & stored for view in chosen if view.name in stored},
        lambda own, name: create_view(own, "table", views_by_name()[name], parts),
    )
    for view in chosen:
        if view.layer != "staging" and view.name not in stored:
            create_view(connection, "view", view, parts)


def create_view(connection: "duckdb.DuckDBPyConnection", kind: str, view: ViewFile, parts: Sequence[str]) -> None:
    """Create a view or a table from a query. A staging view reads each part of the events with its own query.

    This way, DuckDB reads only the requested fields from Parquet. Reading the call ids of 10 million events takes 0.15
    s, but 1.8 s through the view ``events``, which reads whole structs. If the sealed rows come from an older version
    and lack a field or an event type, the staging view reads ``events``. A staging view with a window function does,
    too, because the rows that it compares may be in different parts.
    """
    import duckdb

    if view.layer != "staging" or " over (" in view.query:
        parts = ("events",)
    queries = (re.sub(r"\bfrom events\b", f"from {part}", view.query) for part in parts)
    try:
        connection.execute(f"create {kind} {view.name} as {' union all by name '.join(queries)}").fetchall()
    except duckdb.BinderException:
        if parts == ("events",):
            raise
        connection.execute(f"create {kind} {view.name} as {view.query}").fetchall()


def _event_type(view: ViewFile) -> str | None:
    """Return the event type that a staging view reads."""
    found = _EVENT_TYPE.search(view.query)
    return found[1] if found else None


def _read_all() -> Iterator[ViewFile]:
    for layer in LAYERS:
        for path in sorted((sql_root() / layer).glob("*.sql")):
            query = path.read_text(encoding="utf-8")
            yield ViewFile(name=path.stem, layer=layer, query=query, inputs=_inputs(path, query))


def _inputs(path: Path, query: str) -> frozenset[str]:
    """Read the inputs from the header of a query. A test compares every header with its parsed query."""
    found = _INPUTS.search(query)
    if found is None:
        raise ValueError(f"{path} has no line '-- inputs:' in its header")
    return frozenset(re.findall(r"\w+", found[1]))
