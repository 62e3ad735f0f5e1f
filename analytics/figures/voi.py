"""Figures of the value of information by injection time, with or without the times of first questions."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lhaw_record.analytics.figures.drawing import (
    INK,
    LINE,
    QUIET,
    FigureSpec,
    NothingToDraw,
    Row,
    Rows,
    canvas,
    curve,
    has_value,
    legend,
    look,
    named,
    note,
    pass_name,
    pick,
    span,
    values_of,
)
from lhaw_record.recorder.events.values import DIMENSIONS, INJECT_PERCENTAGES
from lhaw_record.recorder.wording import CONDITION_LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELS = {"pass_at_1": "trial success", "checkpoint_progress": "progress"}
_BASELINES = tuple((name, CONDITION_LABELS[name], line) for name, line in (("full", ":"), ("underspecified", "--")))


def voi(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw one panel per benchmark and dimension, with a curve per agent and one for all agents pooled.

    Horizontal lines show the full and the underspecified prompt.
    """
    found = injected(pick(rows["voi"], measure=_measure(rows)))
    pooled = _pooled(rows)
    agents = values_of(found, "agent")

    def draw(axes: "Axes", place: dict[str, str], handles: dict[str, Any]) -> None:
        _panel(axes, pick(found, **place), pick(pooled, **place), agents, handles)

    return _panels(spec, rows, found, draw, xlabel="injected at (% of the budget)")


def ask_timing(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw the pooled curves with a line at the mean first question of each agent, and shade the optimal window."""
    found = injected(_pooled(rows))
    asks = [row for row in pick(rows["natural_ask"], task_id="all", measure="first_ask_mean_pct") if has_value(row)]
    agents = values_of(asks, "agent")

    def draw(axes: "Axes", place: dict[str, str], handles: dict[str, Any]) -> None:
        _window(axes, pick(rows["pooled_optimal_window"], **place), handles)
        _panel(axes, pick(found, **place), pick(found, **place), [], handles)
        _first_asks(axes, pick(asks, benchmark=place["benchmark"]), agents, handles)

    return _panels(spec, rows, found, draw, xlabel="% of the budget; % of the actions")


def _panels(
    spec: FigureSpec,
    rows: Rows,
    found: Sequence[Row],
    draw: Callable[["Axes", dict[str, str], dict[str, Any]], None],
    xlabel: str,
) -> "Figure":
    """Draw one panel per benchmark and dimension, and a shared legend.

    For each panel, ``draw`` receives the axes, the benchmark and dimension, and a mapping to which it adds legend
    handles.
    """
    benchmarks, dimensions = _benchmarks(found), values_of(found, "dimension", DIMENSIONS)
    size = (1.2 + 2.3 * len(dimensions), 0.9 + 2.3 * len(benchmarks))
    figure, grid = canvas(len(benchmarks), len(dimensions), title=spec.title, size=size)
    handles: dict[str, Any] = {}
    for benchmark, axes_line in zip(benchmarks, grid, strict=True):
        for dimension, axes in zip(dimensions, axes_line, strict=True):
            place = {"benchmark": benchmark, "dimension": dimension}
            draw(axes, place, handles)
            head = dimension if len(benchmarks) == 1 else f"{named(benchmark, 20)}: {dimension}"
            heading(axes, head, pick(_pooled(rows), **place))
        axes_line[0].set_ylabel(_LABELS.get(_measure(rows)) or pass_name(rows))
    for axes in grid[-1]:
        axes.set_xlabel(xlabel)
    legend(figure, list(handles.values()))
    return figure


def _measure(rows: Rows) -> str:
    """Return the measure of the timing tables."""
    return str(rows["parameters"][0]["timing_measure"])


def _pooled(rows: Rows) -> list[Row]:
    """Return the rows of all agents pooled, regardless of the agent filter."""
    return pick(rows["pooled_voi"], measure=_measure(rows))


def _benchmarks(rows: Sequence[Row]) -> list[str]:
    """Return the benchmarks, followed by ``all`` if the table pools several benchmarks."""
    return values_of(rows, "benchmark") + (["all"] if pick(rows, benchmark="all") else [])


def injected(rows: Sequence[Row]) -> list[Row]:
    """Return the rows as a list after checking that at least one injection has a value."""
    if not any(has_value(row) and row["condition"].startswith("inject_") for row in rows):
        planned = any(row["condition"].startswith("inject_") and row["n_dropped"] for row in rows)
        raise NothingToDraw(
            "no unit has the full prompt and every injection (see the parameter voi_cases)"
            if planned
            else "no injected trials in this store"
        )
    return list(rows)


def heading(axes: "Axes", title: str, rows: Sequence[Row]) -> None:
    """Set the title of the axes and write the number of units of the pooled rows below it."""
    units = span(row["n_units"] for row in rows if has_value(row))
    flat = any(row.get("has_oracle_gap") is False for row in rows)
    axes.set_title(title, pad=15)
    note(axes, f"n = {units} units" + (", no gap to the full prompt" if flat else ""))


def _panel(
    axes: "Axes", cell: Sequence[Row], pooled: Sequence[Row], agents: Sequence[str], handles: dict[str, Any]
) -> None:
    for place, agent in enumerate(agents):
        curve(
            axes,
            pick(cell, agent=agent),
            named(agent),
            handles,
            {**look(place), "alpha": 0.9},
            1.5 * (place - len(agents) / 2),
            has_band=len(agents) == 1,
        )
    if len(agents) != 1:
        drawn = {"color": INK, "marker": "o", "linewidth": 2.2}
        curve(axes, pick(cell, agent="all"), "all agents", handles, drawn, 0, has_band=True)
    for condition, label, dashes in _BASELINES:
        for row in filter(has_value, pick(pooled, condition=condition)):
            handles[label] = axes.axhline(row["value"], color=QUIET, linestyle=dashes, linewidth=1.2, label=label)
    axes.set_xlim(0, 100)
    axes.set_xticks(INJECT_PERCENTAGES)
    axes.set_ylim(-0.04, 1.04)


def _first_asks(axes: "Axes", asks: Sequence[Row], agents: Sequence[str], handles: dict[str, Any]) -> None:
    for row in filter(has_value, asks):
        if row["agent"] == "all":
            continue
        label = f"{named(row['agent'], 20)} first asks"
        colour = look(agents.index(row["agent"]))["color"]
        if row["low"] is not None:
            axes.axvspan(row["low"], row["high"], color=colour, alpha=0.12, linewidth=0)
        handles[label] = axes.axvline(row["value"], color=colour, linewidth=1.6, label=label)


def _window(axes: "Axes", windows: Sequence[Row], handles: dict[str, Any]) -> None:
    for row in filter(has_value, pick(windows, measure="window_end_pct")):
        handles["optimal window"] = axes.axvspan(
            0, row["value"], color=LINE, alpha=0.6, linewidth=0, label="optimal window"
        )
