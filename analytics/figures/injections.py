"""Figures by injection time: wasted work, the latest useful injection, and agreement of agents."""

from typing import TYPE_CHECKING, Any

from lhaw_record.analytics.figures.drawing import (
    CLASSES,
    INK,
    PAPER,
    QUIET,
    SERIES,
    FigureSpec,
    NothingToDraw,
    Row,
    Rows,
    canvas,
    curve,
    has_value,
    legend,
    line,
    look,
    named,
    note,
    pass_name,
    pick,
    span,
    values_of,
)
from lhaw_record.recorder.events.values import DIMENSIONS, INJECT_PERCENTAGES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WASTED_PANELS = (("wasted_pct", "wasted share of the actions (%)"), ("wasted_actions", "wasted actions per trial"))


def wasted(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw the share and the number of wasted actions per benchmark, for each agent and for all agents pooled."""
    found, pooled = ([row for row in rows[view] if has_value(row)] for view in ("wasted", "pooled_wasted"))
    if not found:
        raise NothingToDraw("no injected trials in this store whose task also ran with the full prompt")
    benchmarks, agents = values_of(found, "benchmark"), values_of(found, "agent")
    figure, grid = canvas(len(benchmarks), 2, title=spec.title, size=(8, 0.9 + 2.4 * len(benchmarks)))
    handles: dict[str, Any] = {}
    for benchmark, axes_line in zip(benchmarks, grid, strict=True):
        for (measure, label), axes in zip(_WASTED_PANELS, axes_line, strict=True):
            place = {"benchmark": benchmark, "measure": measure}
            cell = pick(found, **place)
            names = agents if len(agents) == 1 else [*agents, "all"]
            for rank, agent in enumerate(names):
                drawn = {"color": INK, "marker": "o", "linewidth": 2.2} if agent == "all" else look(rank)
                shown = "all agents" if agent == "all" else named(agent)
                shift, has_band = rank - len(names) / 2, agent == names[-1]
                curve(axes, pick(cell, agent=agent), shown, handles, drawn, shift, has_band=has_band)
            axes.set_title(named(benchmark), pad=15)
            note(axes, f"n = {span(row['n_units'] for row in (pick(pooled, **place) or cell))} units")
            axes.set_xlim(0, 100)
            axes.set_xticks(INJECT_PERCENTAGES)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(label)
    for axes in grid[-1]:
        axes.set_xlabel("injected at (% of the budget)")
    legend(figure, list(handles.values()))
    return figure


_BAR = 0.26


def point_of_no_return(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw the points of no return by dimension and class, and the gain at each injection time.

    Filled markers are significant gains.
    """
    gains = [row for row in pick(rows["point_of_no_return"], measure="injection_gain") if has_value(row)]
    points = pick(rows["point_of_no_return"], measure="point_of_no_return_pct")
    if not gains:
        raise NothingToDraw("no injected trials of classified variants in this store")
    dimensions, classes = values_of(gains, "dimension", DIMENSIONS), values_of(gains, "ambiguity_class", CLASSES)
    columns = 1 + len(dimensions)
    figure, (panels,) = canvas(1, columns, title=spec.title, size=(2.2 + 2.25 * columns, 3.3))
    handles: dict[str, Any] = {}
    _points(panels[0], points, dimensions, classes)
    for dimension, axes in zip(dimensions, panels[1:], strict=True):
        cell = pick(gains, dimension=dimension)
        for place, name in enumerate(classes):
            _gains(axes, pick(cell, ambiguity_class=name), name, place - (len(classes) - 1) / 2, look(place), handles)
        axes.axhline(0, color=QUIET, linewidth=0.8)
        axes.set_title(dimension, pad=15)
        note(axes, f"n = {span(row['n_units'] for row in cell)} units; filled: significant")
        axes.set_xlim(0, 100)
        axes.set_xticks(INJECT_PERCENTAGES)
        axes.set_ylim(-1.05, 1.05)
        axes.set_xlabel("injected at (%)")
    panels[1].set_ylabel(f"gain in {pass_name(rows)}")
    legend(figure, list(handles.values()))
    return figure


def _points(axes: "Axes", points: list[Row], dimensions: list[str], classes: list[str]) -> None:
    for place, name in enumerate(classes):
        offset = ((len(classes) - 1) / 2 - place) * _BAR
        for group, dimension in enumerate(reversed(dimensions)):
            for row in pick(points, dimension=dimension, ambiguity_class=name):
                if has_value(row):
                    axes.barh(group + offset, row["value"], height=_BAR * 0.9, color=look(place)["color"])
                else:
                    reason = str(row["reason"]).replace("_", " ")
                    axes.text(1, group + offset, reason, color=QUIET, va="center")
    axes.set_yticks(range(len(dimensions)), list(reversed(dimensions)))
    axes.set_ylim(-0.6, len(dimensions) - 0.4)
    axes.set_xlim(0, 100)
    axes.set_xticks(INJECT_PERCENTAGES)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x")
    axes.set_title("point of no return", pad=15)
    note(axes, "last injection up to which the gain is significant")
    axes.set_xlabel("injected at (%)")


def _gains(
    axes: "Axes", rows: list[Row], name: str, shift: float, drawn: dict[str, Any], handles: dict[str, Any]
) -> None:
    rows = sorted(rows, key=lambda row: int(row["timing"]))
    if not rows:
        return
    places = [int(row["timing"]) + 2.5 * shift for row in rows]
    handles[name] = line(axes, places, rows, label=name, **drawn)
    hollow = [(place, row["value"]) for place, row in zip(places, rows, strict=True) if not row["is_significant"]]
    axes.plot(
        [place for place, _ in hollow],
        [value for _, value in hollow],
        linestyle="none",
        zorder=5,
        **{**drawn, "markerfacecolor": PAPER},
    )


_STRONGEST = 0.55
"""The opacity of a cell with correlation 1. Text on it stays readable in light and dark colours."""


def kendall(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw one heat map of Kendall's tau-b per benchmark, and one over all benchmarks if the table pools them."""
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
