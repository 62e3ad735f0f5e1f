"""Success by how many segments were removed from the prompt, with and without a user to ask."""

from typing import TYPE_CHECKING, Any

from analytics.figures.drawing import FigureSpec, NothingToDraw, Rows
from analytics.figures.series import has_value, line, pass_name, pick, span, values_of
from analytics.figures.style import canvas, legend, look, named, note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ARMS = (("underspecified", "-", "{}"), ("ask_user", "--", "{}, may ask"))


def by_segments_removed(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw pass@k over the number of removed segments, a panel per benchmark, a line per agent and arm."""
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
