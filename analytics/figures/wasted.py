"""Work before the injection that no oracle trial does, by the time of the injection."""

from typing import TYPE_CHECKING, Any

from analytics.figures.drawing import FigureSpec, NothingToDraw, Rows
from analytics.figures.series import has_value, line, pick, span, values_of
from analytics.figures.style import INK, canvas, legend, look, named, note
from recorder.values import INJECT_PERCENTAGES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS = (("wasted_pct", "wasted share of the actions (%)"), ("wasted_actions", "wasted actions per trial"))


def wasted(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw the share and the number of wasted actions per benchmark: each agent, and all pooled."""
    found = [row for row in rows["wasted"] if has_value(row)]
    if not found:
        raise NothingToDraw("no injected trials with an oracle trace in this store")
    benchmarks, agents = values_of(found, "benchmark"), values_of(found, "agent")
    figure, grid = canvas(len(benchmarks), 2, title=spec.title, size=(8, 0.9 + 2.4 * len(benchmarks)))
    handles: dict[str, Any] = {}
    for benchmark, axes_line in zip(benchmarks, grid, strict=True):
        for (measure, label), axes in zip(_PANELS, axes_line, strict=True):
            cell = pick(found, benchmark=benchmark, measure=measure)
            names = agents if len(agents) == 1 else [*agents, "all"]
            for place, agent in enumerate(names):
                points = pick(cell, agent=agent)
                points.sort(key=lambda row: int(row["condition"][7:]))
                drawn = {"color": INK, "marker": "o", "linewidth": 2.2} if agent == "all" else look(place)
                shown = "all agents" if agent == "all" else named(agent)
                places = [int(row["condition"][7:]) + place - len(names) / 2 for row in points]
                if points:
                    handles[shown] = line(axes, places, points, label=shown, **drawn)
            axes.set_title(named(benchmark), pad=15)
            note(axes, f"n = {span(row['n_units'] for row in (pick(cell, agent='all') or cell))} units")
            axes.set_xlim(0, 100)
            axes.set_xticks(INJECT_PERCENTAGES)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(label)
    for axes in grid[-1]:
        axes.set_xlabel("injected at (% of the budget)")
    legend(figure, list(handles.values()))
    return figure
