"""What an agent reaches with a user to ask, against what each of its questions brought."""

from typing import TYPE_CHECKING, Any

from analytics.figures.drawing import FigureSpec, NothingToDraw, Row, Rows
from analytics.figures.series import bounds, has_value, pass_name, pick, values_of
from analytics.figures.style import MARKERS, QUIET, SERIES, canvas, legend, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = (
    ("pass_at_k", "pass_pp_per_question", "{} with ask_user"),
    ("checkpoint_progress", "progress_pp_per_question", "checkpoint progress with ask_user"),
)


def value_scatter(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw a point per agent and benchmark, for pass@k and for checkpoint progress."""
    found = [row for row in pick(rows["overall"], condition="ask_user") if row["agent"] != "all"]
    if not found:
        raise NothingToDraw("no trials with ask_user in this store")
    if not any(has_value(row) for row in found if row["measure"].endswith("_pp_per_question")):
        raise NothingToDraw("nobody asked a question: there is no gain per question")
    agents, benchmarks = values_of(found, "agent"), values_of(found, "benchmark")
    figure, (panels,) = canvas(1, 2, title=spec.title, size=(8.4, 3.9))
    for axes, (value, gain, label) in zip(panels, _PANELS, strict=True):
        for agent in agents:
            for benchmark in benchmarks:
                cell = {row["measure"]: row for row in pick(found, agent=agent, benchmark=benchmark)}
                _point(axes, cell.get(gain), cell.get(value), _look(agents.index(agent), benchmarks.index(benchmark)))
        axes.axvline(0, color=QUIET, linewidth=0.8)
        axes.grid(axis="x")
        axes.set_ylim(-0.04, 1.04)
        axes.set_xlabel("gain per question (percentage points)")
        axes.set_ylabel(label.format(pass_name(rows)))
    legend(figure, _handles(panels[0], agents, benchmarks, found))
    return figure


def _point(axes: "Axes", gain: Row | None, value: Row | None, look: dict[str, Any]) -> None:
    if gain is None or value is None or not has_value(gain) or not has_value(value):
        return
    axes.errorbar(
        [gain["value"]], [value["value"]], xerr=bounds([gain]), yerr=bounds([value]), elinewidth=0.9, alpha=0.95, **look
    )


def _look(agent: int, benchmark: int) -> dict[str, Any]:
    return {"color": SERIES[agent % len(SERIES)], "marker": MARKERS[benchmark % len(MARKERS)], "markersize": 7}


def _handles(axes: "Axes", agents: list[str], benchmarks: list[str], found: list[Row]) -> list[Any]:
    """Colours stand for agents, with their units; shapes for benchmarks, where there are several."""
    handles: list[Any] = []
    for place, agent in enumerate(agents):
        units = sum(row["n_units"] for row in pick(found, agent=agent, measure="pass_at_k"))
        text = f"{named(agent)} (n = {units})"
        handles += axes.plot([], [], linestyle="none", label=text, **_look(place, 0))
    if len(benchmarks) > 1:
        for place, benchmark in enumerate(benchmarks):
            drawn = {**_look(0, place), "color": QUIET}
            handles += axes.plot([], [], linestyle="none", label=named(benchmark), **drawn)
    return handles
