"""The SQL files as views: what each one reads is found in its query, and that gives the order of building."""

import json
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from analytics.resources import sql_root

if TYPE_CHECKING:
    import duckdb

LAYERS = ("staging", "intermediate", "marts", "tables", "checks")
_STORED = ("intermediate", "marts")
_READ_BY_NOTES = "exclusions"


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One SQL file; ``inputs`` are the views and tables that its query names."""

    name: str
    layer: str
    query: str
    inputs: frozenset[str]


def empty_database() -> "duckdb.DuckDBPyConnection":
    """Return a connection to a database in memory that never fetches an extension."""
    import duckdb

    return duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})


@cache
def all_views() -> tuple[View, ...]:
    """Return every view, each after everything that it reads."""
    found = {view.name: view for view in _read_all()}
    order = TopologicalSorter({name: view.inputs & found.keys() for name, view in found.items()})
    return tuple(found[name] for name in order.static_order())


def needed_for(names: set[str]) -> set[str]:
    """Return the names of views with everything that they read, directly or not."""
    needed = set(names)
    for view in reversed(all_views()):
        if view.name in needed:
            needed |= view.inputs
    return needed


def named_in(query: str) -> set[str] | None:
    """Return the views whose names occur in a query; None, which stands for all, where it is no plain query."""
    if not re.match(r"\s*(select|with|from)\b", query, re.IGNORECASE) or "duckdb_" in query:
        return None
    words = set(re.findall(r"\w+", query.lower()))
    return {view.name for view in all_views() if view.name in words}


def create_macros(connection: "duckdb.DuckDBPyConnection") -> None:
    """Create the macros that the queries share, each after those that it calls."""
    bodies = {path.stem: path.read_text(encoding="utf-8") for path in sorted((sql_root() / "macros").glob("*.sql"))}
    calls = {name: {other for other in bodies if f"{other}(" in body} - {name} for name, body in bodies.items()}
    for name in TopologicalSorter(calls).static_order():
        connection.execute(bodies[name]).fetchall()


def create_views(connection: "duckdb.DuckDBPyConnection", only: set[str] | None = None) -> None:
    """Create the views in the order of what they read.

    Intermediate views and marts that others read are computed once, into temporary tables: inlined into each other,
    as plain views are, they would be planned over and over, and a table would take minutes.

    Args:
        connection: One with ``events``, its parts ``sealed_events`` and ``open_rows``, and ``live_streams``.
        only: Names to create, with everything they need; default all.
    """
    wanted = None if only is None else needed_for(only)
    read_by_others = {_READ_BY_NOTES, *(name for view in all_views() for name in view.inputs)}
    for view in all_views():
        if wanted is not None and view.name not in wanted:
            continue
        if view.layer == "staging":
            _create_staging(connection, view)
            continue
        is_stored = view.layer in _STORED and view.name in read_by_others
        kind = "temporary table" if is_stored else "view"
        connection.execute(f"create {kind} {view.name} as {view.query}").fetchall()


def _create_staging(connection: "duckdb.DuckDBPyConnection", view: View) -> None:
    """Create a staging view over the sealed and the open rows apart.

    Only so are the fields that a query asks for alone read from Parquet (measured: 0.15 s for a call id of 10 million
    events, 1.8 s through the union, which reads whole structs). Sealed rows of older versions that lack a field, or the
    event type, are read through the union.
    """
    import duckdb

    parts = (re.sub(r"\bfrom events\b", f"from {part}", view.query) for part in ("sealed_events", "open_rows"))
    try:
        connection.execute(f"create view {view.name} as {' union all by name '.join(parts)}").fetchall()
    except duckdb.BinderException:
        connection.execute(f"create view {view.name} as {view.query}").fetchall()


def _read_all() -> Iterator[View]:
    paths = [(layer, path) for layer in LAYERS for path in sorted((sql_root() / layer).glob("*.sql"))]
    queries = [path.read_text(encoding="utf-8") for _, path in paths]
    with empty_database() as connection:
        trees = connection.execute("select json_serialize_sql(unnest(?))", [queries]).fetchall()
    for (layer, path), query, (tree,) in zip(paths, queries, trees, strict=True):
        yield View(name=path.stem, layer=layer, query=query, inputs=_inputs(path, json.loads(tree)))


def _inputs(path: Path, tree: dict[str, Any]) -> frozenset[str]:
    """Return the tables that a parsed query names, its own common table expressions left out."""
    if tree["error"]:
        raise ValueError(f"{path} holds no query: {tree['error_message']}")
    nodes = list(_nodes(tree))
    tables = {node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"}
    expressions = {entry["key"] for node in nodes if "cte_map" in node for entry in node["cte_map"]["map"]}
    return frozenset(tables - expressions)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)
