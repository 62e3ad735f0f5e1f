"""The reported tables: what each is, its rows in a fixed order, and the notes that it is never shown without."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from analytics.errors import UnknownName
from analytics.notes import notes_for
from recorder.values import CONDITIONS, DIMENSIONS

if TYPE_CHECKING:
    import duckdb

Row = dict[str, Any]


class TableSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One table: the columns that identify a row, and the parameters that its numbers depend on."""

    name: str
    title: str
    keys: tuple[str, ...]
    parameters: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table as computed: rows by column name, None where a value is undefined."""

    name: str
    title: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


_SPECS = (
    TableSpec(
        name="overall",
        title="Success, progress and clarification, all variants",
        keys=("benchmark", "agent", "condition", "measure"),
        parameters=("k",),
    ),
    TableSpec(
        name="by_class",
        title="pass@k by ambiguity class",
        keys=("benchmark", "ambiguity_class", "agent", "condition", "measure"),
        parameters=("k", "reading", "classifier_agent", "classifier_experiment"),
    ),
    TableSpec(
        name="by_dimension_pass",
        title="pass@k by dimension of what was removed",
        keys=("benchmark", "agent", "dimension", "condition", "measure"),
        parameters=("k", "per"),
    ),
    TableSpec(
        name="by_dimension_progress",
        title="Checkpoint progress by dimension of what was removed",
        keys=("benchmark", "agent", "dimension", "condition", "measure"),
        parameters=("per",),
    ),
    TableSpec(
        name="gain_tests",
        title="Gains from asking: tests, noise floor, and the trials that a gain needs",
        keys=("split", "level", "benchmark", "agent", "measure"),
        parameters=("k", "per", "permutations", "confidence", "power", "wanted_gain_pp"),
    ),
    TableSpec(
        name="voi",
        title="Value of the information by the time of its injection",
        keys=("benchmark", "dimension", "agent", "condition", "measure"),
        parameters=("k", "per", "voi_cases", "intention_to_treat"),
    ),
    TableSpec(
        name="wasted",
        title="Work before the injection that no oracle trial does",
        keys=("benchmark", "agent", "condition", "measure"),
        parameters=("wasted_match", "wasted_supply", "intention_to_treat"),
    ),
    TableSpec(
        name="natural_ask",
        title="When and how often agents ask by themselves",
        keys=("benchmark", "agent", "task_id", "measure"),
    ),
    TableSpec(
        name="trial_counts_and_cost",
        title="Trials, tokens, cost and time",
        keys=("benchmark", "agent", "role", "condition", "purpose"),
    ),
)
_BY_NAME = {spec.name: spec for spec in _SPECS}

TABLES: tuple[str, ...] = tuple(_BY_NAME)
"""The names of all tables, in the order in which they are shown."""

_MEASURES = (
    "pass_at_k",
    "pass_at_k_gain",
    "pass_pp_per_question",
    "pass_pp_per_question_per_variant",
    "pass_hat_k",
    "checkpoint_progress",
    "checkpoint_progress_gain",
    "progress_pp_per_question",
    "progress_pp_per_question_per_variant",
    "ask_pct",
    "ask_variant_pct",
    "questions_per_asking_trial",
    "questions",
    "most_questions_per_trial",
    "success_pct",
    "first_ask_mean_pct",
    "first_ask_median_pct",
    "first_asks_25_to_50_pct",
    "wasted_pct",
    "wasted_actions",
    "pre_injection_actions",
    "pre_injection_tokens",
    "pre_injection_cost_usd",
)
_ORDERS: Mapping[str, tuple[str, ...]] = {
    "condition": CONDITIONS,
    "dimension": ("all", *DIMENSIONS),
    "ambiguity_class": ("outcome-critical", "divergent", "benign"),
    "measure": _MEASURES,
    "task_id": ("all",),
    "split": ("overall", "ambiguity_class", "dimension"),
    "level": ("all", "outcome-critical", "divergent", "benign", *DIMENSIONS),
    "purpose": ("agent", "user_simulator", "grader_and_judge", "all"),
}


def table(connection: "duckdb.DuckDBPyConnection", name: str) -> Table:
    """Return a table of a store.

    Args:
        connection: From :func:`analytics.store.open`.
        name: One of ``TABLES``.

    Raises:
        UnknownName: There is no such table.
    """
    if name not in _BY_NAME:
        raise UnknownName(f"there is no table {name!r}; known: {', '.join(TABLES)}")
    spec = _BY_NAME[name]
    result = connection.execute(f"select * from {name}")  # noqa: S608 - a name of ours
    columns = tuple(column[0] for column in result.description or ())
    rows = [dict(zip(columns, row, strict=True)) for row in result.fetchall()]
    rows.sort(key=lambda row: tuple(_rank(key, row[key]) for key in spec.keys))
    return Table(
        name=name,
        title=spec.title,
        keys=spec.keys,
        columns=columns,
        rows=tuple(rows),
        notes=notes_for(connection, name, spec.parameters, rows),
    )


def comparable(one: Table) -> Table:
    """Return a table without what depends on the machine and on interruptions.

    Left out are the columns ``attempts``, ``failed_*`` and ``*_seconds``, and the notes. An interrupted and resumed
    run equals an uninterrupted one in all that stays, where the models are deterministic.
    """
    kept = tuple(column for column in one.columns if not _is_excepted(column))
    rows = tuple({column: row[column] for column in kept} for row in one.rows)
    return msgspec.structs.replace(one, columns=kept, rows=rows, notes=())


def _is_excepted(column: str) -> bool:
    return column == "attempts" or column.startswith("failed_") or column.endswith("_seconds")


def _rank(key: str, value: str) -> tuple[bool, int, str]:
    """Known values in their known order, others by name, ``all`` last where it has no place of its own."""
    order = _ORDERS.get(key, ())
    return value == "all" and value not in order, order.index(value) if value in order else len(order), value
