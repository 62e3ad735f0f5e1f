"""Sensitivity analysis: how much the tables change when a parameter has another value.

A parameter with an alternative value is called a reading.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lhaw_record.analytics.tables.tables import Table, comparable, tables
from lhaw_record.analytics.views.build_order import all_views, that_depend_on
from lhaw_record.analytics.views.parameters import PARAMETERS, Setting, set_parameters, values_of
from lhaw_record.analytics.views.store import connect, read_for, recompute
from lhaw_record.recorder.reading.reader import Snapshot

if TYPE_CHECKING:
    import duckdb

STATED: Mapping[str, tuple[Setting, ...]] = {
    "k": (1, 2),  # pass@1 is the success rate of single trials
    "over_clarifier_pct": (30.0, 50.0),  # the one printed over-clarifier asks in 52 %
    "under_clarifier_pct": (5.0, 25.0),  # the one printed balanced agent asks in 23 %
    "selection_progress_pct": (25.0, 75.0),
    "window_pp": (2.5, 10.0),
}
"""Alternative values to try for numeric parameters whose default is a matter of definition."""

_FROM_STORE = {
    "classifier_agent": "select distinct agent from trials where role = 'classifier' order by all",
    "classifier_experiment": "select distinct experiment_id from trials where role = 'classifier' order by all",
    "exclude_endings": """select string_agg(distinct ended_by, ',' order by ended_by) from trials
        where ended_by in ('context_limit', 'output_limit', 'refused') having count(*) > 0""",
    "judge": """select judge from stg_questions_judged union select judge from stg_new_tasks_judged order by all""",
    "reference_agents": """select distinct agent_name from trials
        where role = 'evaluated' and condition = 'full' order by all""",
}
ASKED = frozenset({"trials", "stg_questions_judged", "stg_new_tasks_judged"})
"""The views that show which classifiers, judges and agents a store has."""
_SIZES = ("method", "reason")
_BOUNDS = ("low", "high")

Cells = dict[tuple[str, ...], Any]


class ParameterOverride(msgspec.Struct, frozen=True):
    """One parameter with an alternative value."""

    parameter: str
    value: Setting

    def __str__(self) -> str:
        value = str(self.value).lower() if isinstance(self.value, bool) else self.value
        return f"{self.parameter} = {value}"


class TableChange(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one reading on one table column, within one measure.

    ``n_cells`` counts the cells that exist before or after the change, ``n_changed`` those whose value differs,
    ``n_appeared`` those with a value only after the change, and ``n_vanished`` those with a value only before.
    ``mean_difference`` and ``largest_difference`` are absolute differences over the cells with numbers on both sides.
    The largest difference is in the cell ``at``, whose value changes from ``was`` to ``becomes``. Text columns have no
    differences.
    """

    parameter: str
    reading: str
    table: str
    measure: str
    column: str
    n_cells: int
    n_changed: int
    n_appeared: int
    n_vanished: int
    mean_difference: float | None
    largest_difference: float | None
    at: str
    was: Any
    becomes: Any


def readings(connection: "duckdb.DuckDBPyConnection", chosen: Mapping[str, Setting]) -> list[ParameterOverride]:
    """List every alternative reading to try.

    These are the other values of parameters with a closed list, the values in ``STATED``, and, if the store has several
    classifiers, judges or agents with full trials, each one of them alone.
    """
    found = []
    for parameter in PARAMETERS:
        values: Sequence[Setting] = parameter.choices or STATED.get(parameter.name, ())
        if parameter.name in _FROM_STORE:
            names = [name for (name,) in connection.execute(_FROM_STORE[parameter.name]).fetchall()]
            values = names if len(names) > 1 else ()
        now = chosen.get(parameter.name, parameter.default)
        found += [ParameterOverride(parameter.name, value) for value in values if value != now]
    return found


def sensitivity(
    snapshot: Snapshot,
    names: Sequence[str],
    chosen: Mapping[str, Setting],
    on_reading: Callable[[int, int, ParameterOverride], None] = lambda number, count, reading: None,
) -> tuple[list[TableChange], list[ParameterOverride]]:
    """Compute the tables under every alternative reading. Return all changes, and the readings that were tried.

    For each reading, only the views that depend on a parameter with another value are recomputed.
    """
    plain = {view.name for view in all_views()}
    changes: list[TableChange] = []
    stale: set[str] = set()
    with connect(snapshot, parameters=chosen, only=read_for(names) | ASKED) as connection:
        before = [comparable(each) for each in tables(connection, names)]
        tried, values = readings(connection, chosen), values_of(chosen)
        for number, reading in enumerate(tried, 1):
            on_reading(number, len(tried), reading)
            parameters = {**chosen, reading.parameter: reading.value}
            others = {name for name, value in values_of(parameters).items() if value != values[name]}
            moved = set().union(*map(that_depend_on, others))
            sides = [one for one in before if one.name in moved or one.name not in plain]
            if sides:
                set_parameters(connection, parameters)
                recompute(connection, stale | moved)
                stale = moved
                after = tables(connection, [one.name for one in sides])
                for one, other in zip(sides, after, strict=True):
                    changes += _changes(reading, one, comparable(other))
    return changes, tried


def _changes(reading: ParameterOverride, one: Table, other: Table) -> Iterator[TableChange]:
    """Compare two versions of a table. For each measure, compare interval bounds only if no other column changed."""
    columns = [
        name for name in one.columns if name not in one.keys and not name.startswith("n_") and name not in _SIZES
    ]
    measures = list(dict.fromkeys(str(row.get("measure", "")) for row in (*one.rows, *other.rows)))
    for measure in measures:
        is_moved = False
        for column in sorted(columns, key=lambda name: name.endswith(_BOUNDS)):
            is_bound = column.endswith(_BOUNDS)
            if is_bound and is_moved:
                continue
            change = _change(
                reading, one, measure, column, _cells(one, measure, column), _cells(other, measure, column)
            )
            if change is not None:
                is_moved = is_moved or not is_bound
                yield change


def _cells(one: Table, measure: str, column: str) -> Cells:
    rows = [row for row in one.rows if str(row.get("measure", "")) == measure]
    return {tuple(str(row[key]) for key in one.keys): row[column] for row in rows}


def _change(
    reading: ParameterOverride, one: Table, measure: str, column: str, was: Cells, becomes: Cells
) -> TableChange | None:
    appeared = [key for key, value in becomes.items() if value is not None and was.get(key) is None]
    vanished = [key for key, value in was.items() if value is not None and becomes.get(key) is None]
    both = [key for key, value in was.items() if value is not None and becomes.get(key) is not None]
    changed = [key for key in both if was[key] != becomes[key]]
    if not (appeared or vanished or changed):
        return None
    is_number = bool(both) and all(_is_number(cells[key]) for key in both for cells in (was, becomes))
    differences = {key: abs(becomes[key] - was[key]) for key in both} if is_number else {}
    at = max(differences, key=differences.__getitem__) if changed and is_number else (*changed, *appeared, *vanished)[0]
    return TableChange(
        parameter=reading.parameter,
        reading=str(reading),
        table=one.name,
        measure=measure,
        column=column,
        n_cells=len(was.keys() | becomes.keys()),
        n_changed=len(changed),
        n_appeared=len(appeared),
        n_vanished=len(vanished),
        mean_difference=round(sum(differences.values()) / len(differences), 6) if differences else None,
        largest_difference=round(differences[at], 6) if at in differences else None,
        at=" ".join(f"{key}={value}" for key, value in zip(one.keys, at, strict=True) if key != "measure"),
        was=was.get(at),
        becomes=becomes.get(at),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
