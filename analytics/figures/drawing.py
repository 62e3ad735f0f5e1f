"""What a figure is: a name, the tables it draws, and a function from their rows to a picture."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import duckdb
    from matplotlib.figure import Figure

Row = dict[str, Any]
Rows = Mapping[str, Sequence[Row]]


class NothingToDraw(Exception):
    """The tables hold nothing that the figure could show; the message says why, in words for the picture."""


class FigureSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. ``reads`` are the views whose rows ``draw`` gets, by name; ``parameters`` is a row more."""

    name: str
    title: str
    source: str
    reads: tuple[str, ...]
    draw: Callable[["FigureSpec", Rows], "Figure"]


def read(connection: "duckdb.DuckDBPyConnection", name: str) -> list[Row]:
    """Return the rows of a view in one order."""
    result = connection.execute(f"select * from {name} order by all")  # noqa: S608 - a name of ours
    columns = [column[0] for column in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def blank(spec: FigureSpec, reason: str) -> "Figure":
    """Return the picture of a figure that has nothing to show: its title and why."""
    from analytics.figures.style import QUIET, canvas

    figure, ((axes,),) = canvas(1, 1, title=spec.title, size=(7, 1.2))
    axes.set_axis_off()
    axes.text(0, 0.5, reason, color=QUIET, ha="left", va="center", transform=axes.transAxes)
    return figure
