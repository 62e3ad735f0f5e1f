"""The agreement figure: a heat map of the rank correlations between all pairs of agents."""

from typing import TYPE_CHECKING

from lhaw_record.analytics.figures.drawing import FigureSpec, NothingToDraw, Row, Rows, has_value, pick, span, values_of
from lhaw_record.analytics.figures.style import INK, SERIES, canvas, named, note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STRONGEST = 0.55
"""The opacity of a cell with correlation 1. Text on it stays readable in light and dark colours."""


def kendall(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw one heat map of Kendall's tau-b per benchmark, with the numbers in the cells.

    If the table pools the benchmarks, a heat map over all of them is added.
    """
    found = rows["kendall"]
    if not found:
        raise NothingToDraw("no two agents with injected trials in this store")
    if not any(map(has_value, found)):
        raise NothingToDraw("no pair of agents has a value: " + ", ".join(sorted({row["reason"] for row in found})))
    benchmarks = values_of(found, "benchmark") + (["all"] if pick(found, benchmark="all") else [])
    most = max(len(_agents(pick(found, benchmark=benchmark))) for benchmark in benchmarks)
    side = 1.1 + 0.85 * most
    figure, (panels,) = canvas(
        1, len(benchmarks), title=spec.title, size=(max(5.0, 0.9 + side * len(benchmarks)), 0.9 + side)
    )
    for benchmark, axes in zip(benchmarks, panels, strict=True):
        cell = pick(found, benchmark=benchmark)
        _map(axes, cell, _agents(cell))
        axes.set_title("all benchmarks" if benchmark == "all" else named(benchmark, 24), pad=15)
        note(axes, f"tau-b, p; n = {span(row['n_units'] for row in cell)} cells")
    return figure


def _agents(rows: list[Row]) -> list[str]:
    return sorted({row["agent"] for row in rows} | {row["other_agent"] for row in rows})


def _map(axes: "Axes", cell: list[Row], agents: list[str]) -> None:
    from matplotlib.patches import Rectangle

    for row in cell:
        pair = agents.index(row["agent"]), agents.index(row["other_agent"])
        for x, y in (pair, pair[::-1]):
            tau = row["value"] if has_value(row) else 0.0
            colour = SERIES[0] if tau >= 0 else SERIES[1]
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=colour, alpha=abs(tau) * _STRONGEST, linewidth=0))
            text = f"{tau:.2f}\n{_chance(row['p_value'])}" if has_value(row) else str(row["reason"]).replace("_", "\n")
            axes.text(x, y, text, ha="center", va="center", color=INK)
    names = [named(agent, 14) for agent in agents]
    axes.set_xticks(range(len(agents)), names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(agents)), names)
    axes.set_xlim(-0.5, len(agents) - 0.5)
    axes.set_ylim(len(agents) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.grid(visible=False)


def _chance(p_value: float | None) -> str:
    return "" if p_value is None else "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
