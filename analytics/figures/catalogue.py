"""The catalogue of all figures, and functions that draw one from a store."""

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.figures import asking, injections, questions, variants, voi
from lhaw_record.analytics.figures.drawing import QUIET, FigureSpec, NothingToDraw, Row, blank, read, styled
from lhaw_record.analytics.tables.notes import background, caption_notes
from lhaw_record.analytics.views.parameters import current
from lhaw_record.recorder.wording import did_you_mean

if TYPE_CHECKING:
    import duckdb
    from matplotlib.figure import Figure

_LETTERS_PER_INCH = 14
_SPECS = (
    FigureSpec(
        name="success",
        title="Success by condition",
        source="pass@1 with its intervals",
        reads=("overall",),
        draw=questions.success,
    ),
    FigureSpec(
        name="by_segments_removed",
        title="Success by the number of removed segments",
        source="after LHAW table 2",
        reads=("by_segments_removed",),
        draw=variants.by_segments_removed,
    ),
    FigureSpec(
        name="value_scatter",
        title="Value with a user to ask against gain per question",
        source="LHAW figure 4",
        reads=("overall",),
        draw=questions.value_scatter,
    ),
    FigureSpec(
        name="voi",
        title="Value of the information by the time of its injection",
        source="Ask Early figures 3, 6 to 8 and 13",
        reads=("voi",),
        draw=voi.voi,
    ),
    FigureSpec(
        name="ask_timing",
        title="When agents first ask, over the value of the information",
        source="Ask Early figure 5",
        reads=("voi", "natural_ask", "optimal_window"),
        draw=voi.ask_timing,
    ),
    FigureSpec(
        name="wasted",
        title="Work before the injection that no trial with the full prompt does",
        source="Ask Early figure 4",
        reads=("wasted",),
        draw=injections.wasted,
    ),
    FigureSpec(
        name="point_of_no_return",
        title="How late the information still helps",
        source="Ask Early figure 12",
        reads=("point_of_no_return",),
        draw=injections.point_of_no_return,
    ),
    FigureSpec(
        name="first_asks",
        title="When first questions are asked",
        source="Ask Early figure 9",
        reads=("first_asks", "natural_ask"),
        draw=asking.first_asks,
    ),
    FigureSpec(
        name="late_answers",
        title="What a late or missing answer costs",
        source="ours",
        reads=("late_answers",),
        draw=asking.late_answers,
    ),
    FigureSpec(
        name="task_ask_rates",
        title="How often agents ask, by task",
        source="Ask Early figure 10",
        reads=("natural_ask",),
        draw=asking.task_ask_rates,
    ),
    FigureSpec(
        name="failure_modes",
        title="What goes wrong with questions, by ambiguity class",
        source="LHAW figure 5",
        reads=("failure_modes_by_class",),
        draw=questions.failure_modes,
    ),
    FigureSpec(
        name="persona_by_class",
        title="Questions per trial by persona and ambiguity class",
        source="LHAW figure 6",
        reads=("by_persona",),
        draw=questions.persona_by_class,
    ),
    FigureSpec(
        name="kendall",
        title="Agreement of agents on which information matters when",
        source="Ask Early figure 11",
        reads=("kendall",),
        draw=injections.kendall,
    ),
    FigureSpec(
        name="benchmark_distribution",
        title="What the benchmarks consist of",
        source="LHAW figure 3",
        reads=("variant_breakdown",),
        draw=variants.benchmark_distribution,
    ),
)
_BY_NAME = {spec.name: spec for spec in _SPECS}

FIGURES: tuple[str, ...] = tuple(_BY_NAME)
"""The names of all figures, in the order of the report."""


def spec_of(name: str) -> FigureSpec:
    if name not in _BY_NAME:
        raise UnknownName(f"there is no figure {name!r}{did_you_mean(name, FIGURES)}; known: {', '.join(FIGURES)}")
    return _BY_NAME[name]


def draw(
    connection: "duckdb.DuckDBPyConnection", name: str, shown: Callable[[list[Row]], list[Row]] = list
) -> "Figure":
    """Draw a figure from a store. If there is no data, the figure says why."""
    try:
        return paint(connection, name, shown=shown)
    except NothingToDraw as reason:
        with styled():
            return blank(spec_of(name), str(reason))


def paint(
    connection: "duckdb.DuckDBPyConnection",
    name: str,
    *,
    title: str | None = None,
    shown: Callable[[list[Row]], list[Row]] = list,
) -> "Figure":
    """Draw a figure from a store as :func:`draw` does, but with another title, to which a caption belongs."""
    spec = spec_of(name)
    rows = {view: read(connection, view) for view in spec.reads}
    about_agents = [view for view, found in rows.items() if any(row.get("agent") != "all" for row in found)]
    pools = {
        f"pooled_{view}": shown([row for row in found if row.get("agent") == "all"]) for view, found in rows.items()
    }
    rows = {view: shown(found) for view, found in rows.items()}
    if about_agents and not any(rows[view] for view in about_agents):
        raise NothingToDraw("no rows match the filters")
    rows |= pools
    rows["parameters"] = [dict(current(connection))]
    with styled():
        drawn = spec.draw(spec if title is None else msgspec.structs.replace(spec, title=title), rows)
        if title is None and (said := caption_notes(background(connection))):
            lines = textwrap.wrap(". ".join(said), int(drawn.get_figwidth() * _LETTERS_PER_INCH))
            drawn.supxlabel("\n".join(lines), x=0.01, ha="left", size="small", color=QUIET)
        return drawn
