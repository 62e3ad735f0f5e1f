"""Shared parts of all figures: their specification, and functions to filter rows and draw values with intervals."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lhaw_record.analytics.figures.style import QUIET, canvas
from lhaw_record.analytics.views.rows import rows_of

if TYPE_CHECKING:
    import duckdb
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]


class NothingToDraw(Exception):
    """The tables have no rows for the figure. The figure shows this message instead."""


class FigureSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of one figure.

    ``reads`` names the views that the figure needs. ``draw`` receives a mapping from each of these names to the rows of
    the view; under ``pooled_<view>`` are those of the agent ``all``, which no choice of agents filters. Its key
    ``parameters`` holds one row with the analysis parameters.
    """

    name: str
    title: str
    source: str
    reads: tuple[str, ...]
    draw: Callable[["FigureSpec", Rows], "Figure"]


def read(connection: "duckdb.DuckDBPyConnection", name: str) -> list[Row]:
    """Return the rows of a view in a fixed order."""
    return rows_of(connection, f"select * from {name} order by all")  # noqa: S608 - a name of ours


def blank(spec: FigureSpec, reason: str) -> "Figure":
    """Draw a placeholder for a figure without data, with its title and the reason."""
    figure, ((axes,),) = canvas(1, 1, title=spec.title, size=(7, 1.2))
    axes.set_axis_off()
    axes.text(0, 0.5, reason, color=QUIET, ha="left", va="center", transform=axes.transAxes)
    return figure


CLASSES = ("outcome-critical", "divergent", "benign")


def pick(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return the rows that have the given value in each of the given columns."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def values_of(rows: Iterable[Row], column: str, order: Sequence[str] = ()) -> list[str]:
    """Return the distinct values of a column except ``all``: first the values in ``order``, then the others by name."""
    found = {str(row[column]) for row in rows} - {"all"}
    return [each for each in order if each in found] + sorted(found - set(order))


def has_value(row: Row) -> bool:
    """Return whether a row has a value that can be drawn."""
    return row["value"] is not None


def bounds(rows: Sequence[Row], scale: float = 1.0) -> list[list[float]]:
    """Return how far each interval extends below and above its value, as matplotlib expects it for error bars.

    The distances are 0 if a row has no interval.
    """
    below = [0.0 if row["low"] is None else max(0.0, row["value"] - row["low"]) * scale for row in rows]
    above = [0.0 if row["high"] is None else max(0.0, row["high"] - row["value"]) * scale for row in rows]
    return [below, above]


def line(axes: "Axes", places: Sequence[float], rows: Sequence[Row], **look: Any) -> Any:
    """Draw a line of values with error bars, and return its handle for a legend."""
    return axes.errorbar(
        places, [row["value"] for row in rows], yerr=bounds(rows), capsize=2, elinewidth=0.9, capthick=0.9, **look
    )


def pass_name(rows: Rows) -> str:
    """Return the label of pass@k with the chosen k, for example ``pass@3``."""
    return f"pass@{rows['parameters'][0]['k']}"


def span(counts: Iterable[int]) -> str:
    """Return the range of the counts as text: one number if all are equal, else ``smallest to largest``."""
    found = sorted(set(counts))
    return "0" if not found else str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
