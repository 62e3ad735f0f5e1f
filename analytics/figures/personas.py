"""How often an agent asks, by whom it is told to ask and by how much the gap matters."""

from typing import TYPE_CHECKING, Any

from analytics.figures.drawing import FigureSpec, NothingToDraw, Row, Rows
from analytics.figures.series import CLASSES, bounds, has_value, pick, span, values_of
from analytics.figures.style import QUIET, canvas, legend, look, named, note

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PERSONAS = ("none", "supervisor", "standard", "executive")
_WIDTH = 0.8


def persona_by_class(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw questions per trial, a group of bars per class and a bar per persona, a panel per benchmark and model."""
    if not rows["by_persona"]:
        raise NothingToDraw("no agent has a persona in this store")
    found = [row for row in pick(rows["by_persona"], measure="questions_per_trial") if has_value(row)]
    found = [row for row in found if row["ambiguity_class"] != "all"]
    if not found:
        raise NothingToDraw("no trials of agents with a persona on classified variants")
    panels = sorted({(row["benchmark"], row["model"], row["strategy"]) for row in found})
    personas, classes = values_of(found, "persona", _PERSONAS), values_of(found, "ambiguity_class", CLASSES)
    figure, (axes_line,) = canvas(1, len(panels), title=spec.title, size=(1 + 3.4 * len(panels), 3.3))
    handles: dict[str, Any] = {}
    for (benchmark, model, strategy), axes in zip(panels, axes_line, strict=True):
        cell = pick(found, benchmark=benchmark, model=model, strategy=strategy)
        _bars(axes, cell, personas, classes, handles)
        several = len({each[0] for each in panels}) > 1
        axes.set_title(f"{named(model, 20)}, {named(benchmark, 14)}" if several else named(model), pad=15)
        note(axes, f"n = {span(row['n_units'] for row in cell)} variants per bar")
        axes.set_xticks(range(len(classes)), classes)
        axes.set_xlim(-0.6, len(classes) - 0.4)
        axes.set_ylabel("questions per trial")
    legend(figure, list(handles.values()))
    return figure


def _bars(axes: "Axes", cell: list[Row], personas: list[str], classes: list[str], handles: dict[str, Any]) -> None:
    """A bar per agent and class; agents of one persona share its colour."""
    agents = sorted({(personas.index(row["persona"]), row["agent"]) for row in cell})
    width = min(0.27, _WIDTH / len(agents))
    for place, (persona, agent) in enumerate(agents):
        own = {row["ambiguity_class"]: row for row in pick(cell, agent=agent)}
        bars = [(group, own[name]) for group, name in enumerate(classes) if name in own]
        handles[personas[persona]] = axes.bar(
            [group + (place - (len(agents) - 1) / 2) * width for group, _ in bars],
            [row["value"] for _, row in bars],
            width=width * 0.92,
            yerr=bounds([row for _, row in bars]),
            error_kw={"elinewidth": 0.9, "ecolor": QUIET},
            color=look(persona)["color"],
            label=named(personas[persona]),
        )
