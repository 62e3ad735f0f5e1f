"""Figures about success by condition, and about questions: failure modes, personas, and the gain per question."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from lhaw_record.analytics.figures.drawing import (
    CLASSES,
    MARKERS,
    QUIET,
    SERIES,
    FigureSpec,
    NothingToDraw,
    Row,
    Rows,
    bounds,
    canvas,
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
from lhaw_record.recorder.events.values import CONDITIONS
from lhaw_record.recorder.wording import CONDITION_LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FLAG_BAR = 0.26


def failure_modes(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw one panel per benchmark and agent, with a bar per flag and ambiguity class.

    A flag marks one failure mode. Flags without any value are left out, and counted below the panel titles. If a flag
    has no value in a panel, the reason replaces its bars.
    """
    found = [row for row in rows["failure_modes_by_class"] if row["measure"] != "any_flag" and row["agent"] != "all"]
    if not any(row["n_units"] or row["n_dropped"] for row in found):
        raise NothingToDraw("no trials with questions about classified variants in this store")
    if not any(map(has_value, found)):
        raise NothingToDraw("no flag has a value: " + ", ".join(sorted({row["reason"] for row in found})))
    flags = sorted({(row["category"], row["measure"]) for row in found if has_value(row)}, reverse=True)
    shown = {measure for _, measure in flags}
    left_out = Counter({row["measure"]: row["reason"] for row in found if row["measure"] not in shown}.values())
    words = [f"{count} modes {reason}" for reason, count in sorted(left_out.items())]
    panels = sorted({(row["benchmark"], row["agent"]) for row in found})
    figure, (axes_line,) = canvas(
        1, len(panels), title=spec.title, size=(3.1 + 2.3 * len(panels), 1.5 + 0.34 * len(flags))
    )
    handles: dict[str, Any] = {}
    for (benchmark, agent), axes in zip(panels, axes_line, strict=True):
        cell = pick(found, benchmark=benchmark, agent=agent)
        _flag_bars(axes, cell, flags, values_of(found, "ambiguity_class", CLASSES), handles)
        several = len({each for each, _ in panels}) > 1
        axes.set_title(
            f"{named(agent, 16)}, {named(benchmark, 14)}" if several else named(agent), pad=15 + 12 * len(words)
        )
        size = f"n = {span(row['n_units'] + row['n_dropped'] for row in cell)} trials per class"
        note(axes, "\n".join([size, *words]))
        axes.set_yticks(
            range(len(flags)), [measure.replace("_", " ") for _, measure in flags] if axes is axes_line[0] else []
        )
    legend(figure, list(handles.values()))
    return figure


def _flag_bars(
    axes: "Axes", cell: list[Row], flags: list[tuple[str, str]], classes: list[str], handles: dict[str, Any]
) -> None:
    for place, name in enumerate(classes):
        own = {(row["category"], row["measure"]): row for row in pick(cell, ambiguity_class=name)}
        bars = [(line, own[flag]) for line, flag in enumerate(flags) if flag in own and has_value(own[flag])]
        offset = ((len(classes) - 1) / 2 - place) * _FLAG_BAR
        handles[name] = axes.barh(
            [line + offset for line, _ in bars],
            [row["value"] for _, row in bars],
            height=_FLAG_BAR * 0.9,
            xerr=bounds([row for _, row in bars]),
            error_kw={"elinewidth": 0.7, "ecolor": QUIET},
            color=look(place)["color"],
            label=name,
        )
    for line, flag in enumerate(flags):
        own_rows = [row for row in cell if (row["category"], row["measure"]) == flag]
        if own_rows and not any(map(has_value, own_rows)):
            axes.text(0.01, line, str(own_rows[0]["reason"]), color=QUIET, va="center")
    for line in range(1, len(flags)):
        if flags[line][0] != flags[line - 1][0]:
            axes.axhline(line - 0.5, color=QUIET, linewidth=0.5)
    axes.set_ylim(-0.6, len(flags) - 0.4)
    axes.set_xlim(0, 1.02)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x")
    axes.set_xlabel("share of trials with questions")


_PERSONAS = ("none", "supervisor", "standard", "executive")
_GROUP_WIDTH = 0.8


def persona_by_class(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw the questions per trial, with one panel per benchmark, model and strategy.

    Each panel has a group of bars per ambiguity class, with a bar per persona.
    """
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
        _persona_bars(axes, cell, personas, classes, handles)
        several = len({each[0] for each in panels}) > 1
        axes.set_title(f"{named(model, 20)}, {named(benchmark, 14)}" if several else named(model), pad=15)
        note(axes, f"n = {span(row['n_units'] for row in cell)} variants per bar")
        axes.set_xticks(range(len(classes)), classes)
        axes.set_xlim(-0.6, len(classes) - 0.4)
        axes.set_ylabel("questions per trial")
    legend(figure, list(handles.values()))
    return figure


def _persona_bars(
    axes: "Axes", cell: list[Row], personas: list[str], classes: list[str], handles: dict[str, Any]
) -> None:
    """Draw one bar per agent and ambiguity class. Agents with the same persona have the same colour."""
    agents = sorted({(personas.index(row["persona"]), row["agent"]) for row in cell})
    width = min(0.27, _GROUP_WIDTH / len(agents))
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


_PANELS = (
    ("pass_at_k", "pass_pp_per_question", "{}, may ask"),
    ("checkpoint_progress", "progress_pp_per_question", "progress, may ask"),
)


def value_scatter(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw the value under ask_user against the gain per question, with one point per agent and benchmark.

    Measures without points have no panel.
    """
    found = [row for row in pick(rows["overall"], condition="ask_user") if row["agent"] != "all"]
    if not found:
        raise NothingToDraw("no trials with ask_user in this store")
    if not any(has_value(row) for row in found if row["measure"].endswith("_pp_per_question")):
        raise NothingToDraw("nobody asked a question: there is no gain per question")
    agents, benchmarks = values_of(found, "agent"), values_of(found, "benchmark")
    drawn = [(*panel, points) for panel in _PANELS if (points := _points(found, *panel[:2]))]
    if not drawn:
        raise NothingToDraw("too few trials for a value under ask_user")
    figure, (panels,) = canvas(1, len(drawn), title=spec.title, size=(4.2 * len(drawn), 3.9))
    for axes, (_, _, label, points) in zip(panels, drawn, strict=True):
        for value, gain in points:
            axes.errorbar(
                [gain["value"]],
                [value["value"]],
                xerr=bounds([gain]),
                yerr=bounds([value]),
                elinewidth=0.9,
                alpha=0.95,
                **_look(agents.index(value["agent"]), benchmarks.index(value["benchmark"])),
            )
        axes.axvline(0, color=QUIET, linewidth=0.8)
        axes.grid(axis="x")
        axes.set_ylim(-0.04, 1.04)
        axes.set_xlabel("gain per question (percentage points)")
        axes.set_ylabel(label.format(pass_name(rows)))
    legend(figure, _handles(panels[0], agents, benchmarks, pick(found, measure=drawn[0][0])))
    return figure


def _points(found: list[Row], value: str, gain: str) -> list[tuple[Row, Row]]:
    """Return the rows of two measures for each agent and benchmark that has both values."""
    gains = {(row["agent"], row["benchmark"]): row for row in pick(found, measure=gain) if has_value(row)}
    values = [row for row in pick(found, measure=value) if has_value(row)]
    return [(row, gains[key]) for row in values if (key := (row["agent"], row["benchmark"])) in gains]


def _look(agent: int, benchmark: int) -> dict[str, Any]:
    return {"color": SERIES[agent % len(SERIES)], "marker": MARKERS[benchmark % len(MARKERS)], "markersize": 7}


def _handles(axes: "Axes", agents: list[str], benchmarks: list[str], found: list[Row]) -> list[Any]:
    """Return the legend handles: a colour per agent with its number of units, and a shape per benchmark if several."""
    handles: list[Any] = []
    for place, agent in enumerate(agents):
        units = sum(row["n_units"] for row in pick(found, agent=agent))
        text = f"{named(agent)} (n = {units})"
        handles += axes.plot([], [], linestyle="none", label=text, **_look(place, 0))
    if len(benchmarks) > 1:
        for place, benchmark in enumerate(benchmarks):
            drawn = {**_look(0, place), "color": QUIET}
            handles += axes.plot([], [], linestyle="none", label=named(benchmark), **drawn)
    return handles


def success(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw the share of successful trials: one panel per benchmark, a line per condition, and on it a dot per agent."""
    found = [row for row in pick(rows["overall"], measure="pass_at_1") if row["agent"] != "all" and has_value(row)]
    if not found:
        raise NothingToDraw("no graded trials in this store")
    agents, benchmarks = values_of(found, "agent"), values_of(found, "benchmark")
    conditions = values_of(found, "condition", CONDITIONS)
    room = _GROUP_WIDTH / len(agents)
    height = 1.4 + len(conditions) * max(0.28, 0.13 * len(agents))
    figure, (panels,) = canvas(1, len(benchmarks), title=spec.title, size=(3 + 3.4 * len(benchmarks), height))
    for benchmark, axes in zip(benchmarks, panels, strict=True):
        for place, agent in enumerate(agents):
            own = pick(found, benchmark=benchmark, agent=agent)
            axes.errorbar(
                [row["value"] for row in own],
                [conditions.index(row["condition"]) + (place - (len(agents) - 1) / 2) * room for row in own],
                xerr=bounds(own),
                linestyle="none",
                elinewidth=0.9,
                label=named(agent),
                **look(place),
            )
        names = [CONDITION_LABELS[each] for each in conditions]
        axes.set_yticks(range(len(conditions)), names if axes is panels[0] else [])
        axes.set_ylim(len(conditions) - 0.4, -0.6)
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x")
        axes.set_xlabel("share of successful trials (pass@1)")
        axes.set_title(named(benchmark), pad=15)
        note(axes, f"n = {span(row['n_units'] for row in pick(found, benchmark=benchmark))} variants per dot")
    legend(figure, panels[0].get_legend_handles_labels()[0])
    return figure
