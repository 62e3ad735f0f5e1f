"""Figures about asking: when agents first ask, how often they ask in each task, and what a late answer costs."""

from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lhaw_record.analytics.figures.drawing import (
    INK,
    FigureSpec,
    NothingToDraw,
    Rows,
    bounds,
    canvas,
    has_value,
    legend,
    line,
    look,
    named,
    note,
    pick,
    span,
    values_of,
)
from lhaw_record.recorder.wording import CONDITION_LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BIN_PERCENT = 10
_MOST_TASKS = 60


def first_asks(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw a histogram of first question times for each benchmark and agent, with the mean as a line."""
    asked = pick(rows["first_asks"], condition="ask_user")
    sessions = pick(rows["natural_ask"], task_id="all")
    if not sessions:
        raise NothingToDraw("no trials with ask_user in this store")
    pairs = sorted({(row["benchmark"], row["agent"]) for row in sessions if row["agent"] != "all"})
    columns = min(3, len(pairs))
    lines = -(-len(pairs) // columns)
    figure, grid = canvas(lines, columns, title=spec.title, size=(0.8 + 2.6 * columns, 0.6 + 2.1 * lines))
    agents = values_of(sessions, "agent")
    for place, axes in enumerate(axes for axes_line in grid for axes in axes_line):
        if place >= len(pairs):
            axes.set_axis_off()
            continue
        benchmark, agent = pairs[place]
        found = [row["first_ask_pct"] for row in pick(asked, benchmark=benchmark, agent=agent)]
        measures = {row["measure"]: row for row in pick(sessions, benchmark=benchmark, agent=agent)}
        colour = look(agents.index(agent))["color"]
        axes.hist(found, bins=range(0, 101, _BIN_PERCENT), color=colour, edgecolor="none", rwidth=0.9)
        mean = measures.get("first_ask_mean_pct")
        if mean is not None and has_value(mean):
            axes.axvline(mean["value"], color=INK, linestyle="--", linewidth=1.2)
        benchmarks = {pair[0] for pair in pairs}
        axes.set_title(named(agent) if len(benchmarks) == 1 else f"{named(agent, 18)}, {named(benchmark, 18)}", pad=15)
        trials = measures["ask_pct"]["n_trials"] if "ask_pct" in measures else 0
        shown = f", mean {mean['value']:.0f} %" if mean is not None and has_value(mean) else ""
        note(axes, f"{len(found)} of {trials} trials asked{shown}")
        axes.set_xlim(0, 100)
        axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
        axes.locator_params(axis="y", integer=True)
        axes.set_xlabel("first question (% of the actions)")
        axes.set_ylabel("trials")
    return figure


def task_ask_rates(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw how often each agent asks in each task. Tasks are ordered by their mean rate over the agents."""
    found = [
        row for row in rows["natural_ask"] if row["task_id"] != "all" and row["measure"] == "ask_pct" and has_value(row)
    ]
    if not found:
        raise NothingToDraw("no trials with ask_user in this store")
    agents = values_of(found, "agent")
    tasks = sorted({(row["benchmark"], row["task_id"]) for row in found})
    rates = {task: [row["value"] for row in found if (row["benchmark"], row["task_id"]) == task] for task in tasks}
    ranked = sorted(tasks, key=lambda task: (sum(rates[task]) / len(rates[task]), task))
    half = _MOST_TASKS // 2
    shown = ranked if len(ranked) <= _MOST_TASKS else [*ranked[:half], *ranked[-half:]]
    figure, ((axes,),) = canvas(1, 1, title=spec.title, size=(8, 1.4 + 0.21 * len(shown)))
    handles: dict[str, Any] = {}
    for place, agent in enumerate(agents):
        own = {(row["benchmark"], row["task_id"]): row for row in pick(found, agent=agent)}
        points = [(line, own[task]) for line, task in enumerate(shown) if task in own]
        offset = (place - (len(agents) - 1) / 2) * min(0.2, 0.7 / len(agents))
        handles[agent] = axes.errorbar(
            [row["value"] for _, row in points],
            [line + offset for line, _ in points],
            xerr=bounds([row for _, row in points]),
            linestyle="none",
            elinewidth=0.6,
            label=named(agent),
            **{**look(place), "markersize": 4},
        )
    several = len({benchmark for benchmark, _ in tasks}) > 1
    names = [f"{named(task, 34)} ({named(benchmark, 14)})" if several else named(task, 40) for benchmark, task in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(-0.7, len(shown) - 0.3)
    axes.set_xlim(-3, 103)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x")
    axes.set_xlabel("trials that asked (%)")
    trials = sum(row["n_trials"] for row in found)
    left_out = f"; shown: the {half} with the lowest and highest rates" if len(ranked) > len(shown) else ""
    axes.set_title("", pad=15)
    note(axes, f"{len(ranked)} tasks, n = {trials} trials{left_out}")
    legend(figure, list(handles.values()))
    return figure


def late_answers(spec: FigureSpec, rows: Rows) -> "Figure":
    """Draw each agent's success by response, one panel per benchmark. Responses are ordered by how late they come."""
    success = [row for row in pick(rows["late_answers"], measure="pass_at_1") if has_value(row)]
    if all(row["condition"] == "ask_user" for row in success):
        raise NothingToDraw("no trials with a late or missing answer in this store")
    benchmarks, agents = values_of(success, "benchmark"), values_of(success, "agent")
    figure, grid = canvas(len(benchmarks), 1, title=spec.title, size=(7, 0.9 + 2.4 * len(benchmarks)))
    handles: dict[str, Any] = {}
    for benchmark, (axes,) in zip(benchmarks, grid, strict=True):
        cell = pick(success, benchmark=benchmark)
        delays = pick(rows["late_answers"], benchmark=benchmark, measure="actions_until_answer")
        after = {
            condition: fmean([row["value"] for row in pick(delays, condition=condition) if has_value(row)] or [inf])
            for condition in values_of(cell, "condition")
        }
        ordered = sorted(after, key=lambda condition: (condition != "ask_user", after[condition], condition))
        for rank, agent in enumerate(agents):
            own = sorted(pick(cell, agent=agent), key=lambda row: ordered.index(row["condition"]))
            places = [ordered.index(row["condition"]) + 0.06 * (rank - (len(agents) - 1) / 2) for row in own]
            handles[agent] = line(axes, places, own, label=named(agent), **look(rank))
        axes.set_xticks(range(len(ordered)), [_response(condition, after[condition]) for condition in ordered])
        axes.set_xlim(-0.5, len(ordered) - 0.5)
        axes.set_ylim(-0.04, 1.04)
        axes.set_ylabel("pass@1")
        axes.set_title(named(benchmark), pad=15)
        note(axes, f"n = {span(row['n_units'] for row in cell)} units")
    legend(figure, list(handles.values()))
    return figure


def _response(condition: str, actions: float) -> str:
    """Return a response's name and, below it, the mean number of actions between question and answer."""
    name = CONDITION_LABELS.get(condition, named(condition.removeprefix("ask_user_"), 16))
    when = {0: "at once", inf: "no answer"}.get(actions, f"{actions:.1f} actions later")
    return f"{name}\n{when}"
