"""Filters on table rows. They change only what is shown, not the families of tests or the pools."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.recorder.wording import did_you_mean

if TYPE_CHECKING:
    from lhaw_record.analytics.tables.tables import Table

Row = Mapping[str, Any]
FILTER_KEYS = ("agent", "condition", "measure", "benchmark", "medium")
"""The keys that commands filter by."""
FIGURE_KEYS = ("agent", "benchmark")
"""The keys that figures are filtered by. Conditions and measures are fixed by the figure."""
_COLUMNS = {"agent": ("agent", "other_agent")}
_POOLED_KEYS = ("benchmark", "agent")


class Filter(msgspec.Struct, frozen=True):
    """The shown values by key. A key without values filters nothing; neither does a key that the table lacks."""

    wanted: Mapping[str, Sequence[str]] = {}

    def rows(self, rows: Iterable[Row]) -> list[Any]:
        """Return the matching rows. An agent also matches by the part of its name before ``#``.

        A key whose value is ``all`` in every row filters nothing, because the rows do not distinguish its values.
        """
        found = list(rows)
        for key, values in self.wanted.items():
            columns = [column for column in _COLUMNS.get(key, (key,)) if any(row.get(column) != "all" for row in found)]
            if values and columns:
                found = [row for row in found if _matches([row[column] for column in columns if column in row], values)]
        return found

    def of_figures(self) -> "Filter":
        """Return the filter for figures."""
        return Filter({key: values for key, values in self.wanted.items() if key in FIGURE_KEYS})

    def table(self, table: "Table") -> "Table":
        """Return a table with only the matching rows, and a note on how many are hidden."""
        kept = self.rows(table.rows)
        if len(kept) == len(table.rows):
            return table
        shown = "; ".join(f"{key} {', '.join(values)}" for key, values in self.wanted.items() if values)
        note = f"only {shown}: {len(table.rows) - len(kept)} rows are not shown; this changes no number"
        return msgspec.structs.replace(table, rows=tuple(kept), notes=(*table.notes, note))


def without_lone_pools(rows: Iterable[Row], keys: Sequence[str]) -> list[Any]:
    """Return the rows to print, without pools of a single agent or benchmark, because these repeat its own row.

    CSV, JSON and SQL keep them, so that the rows of a table do not depend on how many agents ran.
    """
    kept = list(rows)
    for pooled in _POOLED_KEYS:
        if pooled not in keys or len({row[pooled] for row in kept} - {"all"}) != 1:
            continue
        others = [*(key for key in keys if key != pooled), "n_trials"]
        alone = {tuple(row.get(key) for key in others) for row in kept if row[pooled] != "all"}
        pools = [row for row in kept if row[pooled] == "all"]
        if all(tuple(row.get(key) for key in others) in alone for row in pools):
            kept = [row for row in kept if row[pooled] != "all"]
    return kept


def known_filter(wanted: Mapping[str, Sequence[str]], rows: Sequence[Row]) -> Filter:
    """Return a filter after checking that its values occur in the rows."""
    from lhaw_record.analytics.tables.catalogue import ORDERS  # every command starts with this module

    for key, values in wanted.items():
        columns = _COLUMNS.get(key, (key,))
        there = dict.fromkeys(str(row[column]) for row in rows for column in columns if column in row)
        for value in values:
            if not any(_is(value, text) for text in there) and value not in ORDERS.get(key, ()):
                known = ", ".join(there) or "none"
                raise UnknownName(f"no row has the {key} {value!r}{did_you_mean(value, there)}; there are: {known}")
    return Filter({key: tuple(values) for key, values in wanted.items() if values})


def _matches(there: Sequence[object], values: Sequence[str]) -> bool:
    return not there or any(_is(value, str(each)) for each in there for value in values)


def _is(wanted: str, text: str) -> bool:
    return text == wanted or text.rpartition("#")[0] == wanted
