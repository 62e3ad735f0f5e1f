"""Pieces that several figures share: values with their intervals, and choosing and ordering rows."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from analytics.figures.drawing import Row, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASSES = ("outcome-critical", "divergent", "benign")


def pick(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return the rows with the wanted values in some columns."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def values_of(rows: Iterable[Row], column: str, order: Sequence[str] = ()) -> list[str]:
    """Return the different values of a column but ``all``: known ones in their order, others by name."""
    found = {str(row[column]) for row in rows} - {"all"}
    return [each for each in order if each in found] + sorted(found - set(order))


def has_value(row: Row) -> bool:
    """Say whether a row has a value that can be drawn."""
    return row["value"] is not None


def bounds(rows: Sequence[Row], scale: float = 1.0) -> list[list[float]]:
    """Return how far each interval reaches below and above its value; nothing where there is none."""
    below = [0.0 if row["low"] is None else max(0.0, row["value"] - row["low"]) * scale for row in rows]
    above = [0.0 if row["high"] is None else max(0.0, row["high"] - row["value"]) * scale for row in rows]
    return [below, above]


def line(axes: "Axes", places: Sequence[float], rows: Sequence[Row], **look: Any) -> Any:
    """Draw values with intervals as bars and return the handle for a legend."""
    return axes.errorbar(
        places, [row["value"] for row in rows], yerr=bounds(rows), capsize=2, elinewidth=0.9, capthick=0.9, **look
    )


def pass_name(rows: Rows) -> str:
    """Return what pass@k is called with the chosen k."""
    return f"pass@{rows['parameters'][0]['k']}"


def span(counts: Iterable[int]) -> str:
    """Return one number, or the least and the greatest where counts differ."""
    found = sorted(set(counts))
    return "0" if not found else str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
