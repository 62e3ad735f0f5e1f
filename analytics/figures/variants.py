"""Figures about variants: the composition of benchmarks, and success by the number of removed segments."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lhaw_record.analytics.figures.drawing import (
    CLASSES,
    INK,
    FigureSpec,
    NothingToDraw,
    Row,
    Rows,
    canvas,
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
from lhaw_record.recorder.events.values import DIMENSIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 0.8
_SETS = ("selected", "evaluated", "registered")
"""The possible sets of variants. The first one that is not empty is drawn.

``selected`` comes from a dataset card, not from the table.
"""


def benchmark_distribution(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw the number of variants and tasks of each benchmark, and the number of variants by class and by dimension."""
    filled = [row for row in rows["variant_breakdown"] if row["value"]]
    if not filled:
        raise NothingToDraw("no variants in this store")
    name = next(name for name in _SETS if pick(filled, variant_set=name))
    found = pick(filled, variant_set=name)
    benchmarks = values_of(found, "benchmark")
    figure, (panels,) = canvas(1, 3, title=spec.title, size=(10.5, 3.4))
    totals = pick(found, dimensions="all", ambiguity_class="all")
    _bars(panels[0], totals, "measure", ["variants", "tasks"], benchmarks)
    by_class = pick(found, dimensions="all", measure="variants")
    _bars(panels[1], by_class, "ambiguity_class", values_of(by_class, "ambiguity_class", CLASSES), benchmarks)
    by_dimension = pick(found, ambiguity_class="all", measure="variants_in_dimension")
    handles = _bars(
        panels[2], by_dimension, "dimensions", values_of(by_dimension, "dimensions", DIMENSIONS), benchmarks
    )
    heads = ("variants and tasks", "ambiguity class", "dimension of what was removed")
    for axes, head in zip(panels, heads, strict=True):
        axes.set_title(head, pad=15)
        note(axes, f"{name} variants")
    panels[0].set_ylabel("number")
    legend(figure, handles)
    return figure


def _bars(
    axes: "Axes", rows: Sequence[Row], column: str, groups: Sequence[str], benchmarks: Sequence[str]
) -> list[object]:
    """Draw one group of bars per value of a column, with one labelled bar per benchmark."""
    width = min(0.5, _WIDTH / len(benchmarks))
    handles = []
    for place, benchmark in enumerate(benchmarks):
        numbers = {str(row[column]): row["value"] for row in pick(rows, benchmark=benchmark)}
        middles = [group + (place - (len(benchmarks) - 1) / 2) * width for group in range(len(groups))]
        heights = [numbers.get(group, 0) for group in groups]
        colour = look(place)["color"]
        bars = axes.bar(middles, heights, width=width * 0.92, color=colour, label=named(benchmark))
        handles.append(bars)
        for middle, height in zip(middles, heights, strict=True):
            if height:
                axes.annotate(
                    f"{height:.0f}",
                    (middle, height),
                    (0, 2),
                    textcoords="offset points",
                    ha="center",
                    color=INK,
                )
    axes.set_xticks(range(len(groups)), [named(group, 16) for group in groups])
    axes.margins(y=0.12)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.locator_params(axis="y", integer=True)
    return list(handles)


_ARMS = (("underspecified", "-", "{}"), ("ask_user", "--", "{}, may ask"))


def by_segments_removed(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw pass@k by the number of removed segments: one panel per benchmark, and a line per agent and condition."""
    found = [row for row in pick(rows["by_segments_removed"], measure="pass_at_k") if has_value(row)]
    found = [row for row in found if row["agent"] != "all"]
    if not any(row["segments_removed"] for row in found):
        raise NothingToDraw("no variants with removed segments that have enough trials")
    benchmarks, agents = values_of(found, "benchmark"), values_of(found, "agent")
    figure, (panels,) = canvas(1, len(benchmarks), title=spec.title, size=(1.4 + 3.4 * len(benchmarks), 3.4))
    handles: dict[str, Any] = {}
    arms = [arm for arm in _ARMS if pick(found, condition=arm[0])]
    for benchmark, axes in zip(benchmarks, panels, strict=True):
        cell = pick(found, benchmark=benchmark)
        lines = [(agent, arm) for agent in agents for arm in arms]
        for place, (agent, (condition, dashes, label)) in enumerate(lines):
            points = [*pick(cell, agent=agent, condition="full"), *pick(cell, agent=agent, condition=condition)]
            points.sort(key=lambda row: row["segments_removed"])
            shift = 0.03 * (place - (len(lines) - 1) / 2)
            drawn = {**look(agents.index(agent)), "linestyle": dashes, "label": label.format(named(agent, 20))}
            if points:
                places = [row["segments_removed"] + shift for row in points]
                handles[str(drawn["label"])] = line(axes, places, points, **drawn)
        most = max(row["segments_removed"] for row in cell)
        axes.set_title(named(benchmark), pad=15)
        counts = [f"{number}: {span(_units(cell, number))}" for number in range(most + 1) if _units(cell, number)]
        note(axes, "n = " + ", ".join(counts))
        axes.set_xticks(range(most + 1), ["full prompt", *(str(number) for number in range(1, most + 1))])
        axes.set_ylim(-0.04, 1.04)
        axes.set_xlabel("removed segments")
        axes.set_ylabel(pass_name(rows))
    legend(figure, list(handles.values()))
    return figure


def _units(cell: list[dict[str, Any]], number: int) -> list[int]:
    return [row["n_units"] for row in pick(cell, segments_removed=number)]
