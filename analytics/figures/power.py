"""The figure of ``lhaw-record power``: power by number of tasks and by cost."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lhaw_record.analytics.figures.drawing import INK, QUIET, canvas, legend, look, note, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TWO_ERRORS = 2
_MOST_TICKS = 8


def power_curve(rows: Sequence[Mapping[str, Any]], *, wanted: float, assumed: str) -> "Figure":
    """Draw power by tasks, one line for each number of variants and trials, and the same by cost.

    If the cost of a trial is unknown, the second panel counts trials instead. Error bars are two standard errors of the
    simulation.
    """
    with styled():
        figure, ((left, right),) = canvas(1, 2, title="Power to see a gain from asking", size=(8.6, 3.7))
        has_cost = all(row["cost_usd"] is not None for row in rows)
        shapes = sorted({(row["variants"], row["trials"]) for row in rows})
        handles = []
        for place, (variants, trials) in enumerate(shapes):
            own = sorted(
                (row for row in rows if (row["variants"], row["trials"]) == (variants, trials)),
                key=lambda row: row["tasks"],
            )
            label = f"{_counted(variants, 'variant')} x {_counted(trials, 'trial')}"
            for axes, column in ((left, "tasks"), (right, "cost_usd" if has_cost else "total_trials")):
                handle = axes.errorbar(
                    [row[column] for row in own],
                    [row["power"] for row in own],
                    yerr=[_TWO_ERRORS * row["power_error"] for row in own],
                    elinewidth=0.9,
                    label=label,
                    **look(place),
                )
            handles.append(handle)
        _axis(left, [row["tasks"] for row in rows], "tasks", wanted)
        if has_cost:
            _axis(right, [row["cost_usd"] for row in rows], "expected cost of both arms (USD)", wanted)
        else:
            _axis(right, [row["total_trials"] for row in rows], "trials of both arms", wanted)
        left.set_ylabel("power")
        right.annotate(
            f"wanted: {wanted:.0%}",
            (0.01, wanted),  # cheap designs have little power, so the text is free of lines here
            (0, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=QUIET,
        )
        left.set_title("by tasks: what the test sees", pad=15)
        note(left, assumed)
        right.set_title("by cost: what the money buys" if has_cost else "by trials: what the work buys", pad=15)
        note(right, "the line further left is the cheaper way to the same power")
        legend(figure, handles)
    return figure


def _axis(axes: "Axes", places: Sequence[float], label: str, wanted: float) -> None:
    """Scale an axis logarithmically, add a tick at each place if there is room, and draw the wanted power."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    axes.axhline(wanted, color=INK, linestyle="--", linewidth=1.0)
    axes.set_xscale("log")
    low, high = min(places), max(places)
    if low == high:
        low, high = low / 1.5, high * 1.5
    axes.set_xlim(low / 1.12, high * 1.12)
    axes.set_ylim(-0.02, 1.04)
    axes.set_xticks(_ticks(sorted(set(places))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axes.set_xlabel(label)


def _ticks(places: Sequence[float]) -> list[float]:
    """Return the places themselves if they are few and far apart, else 1, 2 and 5 times the powers of ten."""
    import math

    if len(places) <= _MOST_TICKS and all(one * 1.2 < other for one, other in pairwise(places)):
        return list(places)
    powers = range(math.floor(math.log10(places[0])), math.ceil(math.log10(places[-1])) + 1)
    found = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [tick for tick in found if places[0] / 1.12 <= tick <= places[-1] * 1.12]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
