"""One store as one page: tables, figures, missing data, cautions and every trial, in a single file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from analytics.checks import checks
from analytics.parameters import current, parse_settings
from analytics.report.cautions import cautions, cautions_list
from analytics.report.facts import facts
from analytics.report.graphics import graphics
from analytics.report.markup import Markup, joined, tag
from analytics.report.missing import missing
from analytics.report.packing import columnar, packed
from analytics.report.page import fill
from analytics.report.texts import choose
from analytics.report.timelines import CHUNK_TRIALS, prompts, timelines
from analytics.report.trial_list import choose_trials, trial_list
from analytics.store import open as open_store
from analytics.tables import TABLES, Table, table
from recorder.store import Store

if TYPE_CHECKING:
    import duckdb

MAIN_TABLES = ("overall", "by_class", "voi")
_PROMPT_CHARACTERS = 20_000


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The page, how many trials it lists, and the claims about the store that do not hold."""

    html: str
    trial_count: int
    broken_claims: tuple[str, ...]


def build(store: Path, *, settings: Sequence[str] = ()) -> Page:
    """Return the page about a store. Equal stores and settings give equal pages.

    Args:
        store: The store's directory.
        settings: Parameters as ``name=value``.

    Raises:
        UnknownName: A parameter does not exist.
        BadParameter: A parameter does not allow its value.
        StoreError: There is no store.
    """
    connection = open_store(store, parameters=parse_settings(settings))
    try:
        return page_of(connection, Store(store).address or store.resolve().name)
    finally:
        connection.close()


def page_of(connection: "duckdb.DuckDBPyConnection", name: str) -> Page:
    """Return the page about an open store, called by a name."""
    tables = {each: table(connection, each) for each in TABLES}
    broken = checks(connection)
    found = cautions(connection, tables, broken)
    count, listed = choose_trials(connection)
    cut = choose(connection)
    data = [
        packed("data-tables", [_encoded(each) for each in tables.values()]),
        packed("data-trials", {"count": listed, "chunk": CHUNK_TRIALS, "columns": trial_list(connection)}),
        packed("data-prompts", prompts(connection, _PROMPT_CHARACTERS)),
        *(packed(f"data-chunk-{place}", chunk) for place, chunk in enumerate(timelines(connection, cut.length))),
    ]
    html = fill(
        {
            "title": joined([f"Report of {name}"]),
            "facts": facts(connection, current(connection)),
            "cautions": cautions_list(found),
            "caution_count": joined([sum(bool(each.found) for each in found)]),
            "tables": joined(_place_of(each) for each in tables.values()),
            "figures": graphics(connection),
            "missing": missing(connection),
            "texts": joined([str(cut), _left_out(count, listed)]),
            "data": Markup("\n".join(data)),
        }
    )
    return Page(html=html, trial_count=listed, broken_claims=tuple(each.claim for each in broken))


def _left_out(count: int, listed: int) -> str:
    return "" if listed == count else f" Of {count:,} trials {listed:,} are listed: the first of every cell."


def _encoded(each: Table) -> dict[str, object]:
    rows = ([row[name] for name in each.columns] for row in each.rows)
    return {
        "name": each.name,
        "keys": each.keys,
        "columns": each.columns,
        "shown": each.shown,
        "count": len(each.rows),
        "rows": columnar(each.columns, msgspec.to_builtins(list(rows))),
    }


def _place_of(each: Table) -> Markup:
    """The place of a table, filled when it is opened; its notes stand there from the start."""
    return tag(
        "details",
        tag("summary", tag("code", each.name), f" {each.title}", tag("span", f"{len(each.rows)} rows", class_="aside")),
        tag("div", class_="table", data_table=each.name),
        tag("ul", [tag("li", note) for note in each.notes], class_="notes"),
        id=f"table-{each.name}",
        open=each.name in MAIN_TABLES,
    )
