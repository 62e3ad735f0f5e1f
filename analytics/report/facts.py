"""Collect what was run, what it cost, and which trials are missing."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import duckdb

_RUNS = """
select
    experiment_id,
    strftime(make_timestamp(started_at_us), '%Y-%m-%d %H:%M:%S') as started_at,
    outcome,
    code_version,
    python_version,
    platform,
    cpu_count,
    planned_trials,
    finished_before,
    trials_finished,
    run_id
from runs
where
    kind <> 'note'
    and (getvariable('experiment') is null or experiment_id = getvariable('experiment'))
order by started_at_us, stream_id
"""
_RUN_HEAD = (
    *("experiment", "started (UTC)", "outcome", "code", "Python", "platform", "CPUs"),
    *("planned", "finished before", "finished", "run"),
)

_CONFIGURATIONS = """
select
    experiment_id,
    config_json,
    any_value(packages) as packages
from runs
where
    kind <> 'note'
    and (getvariable('experiment') is null or experiment_id = getvariable('experiment'))
group by experiment_id, config_json
order by experiment_id, config_json
"""

_TRIALS_COLUMNS = {
    "benchmark": "benchmark",
    "agent": "agent",
    "role": "role",
    "planned": "n_planned",
    "valid": "n_trials",
    "missing": "n_missing",
    "running": "n_running",
    "tokens": "tokens",
    "USD": "cost_usd",
    "attempts": "attempts",
    "failed": "failed_attempts",
    "failed USD": "failed_cost_usd",
    "model s": "model_seconds",
    "tool s": "tool_seconds",
    "wall s": "wall_seconds",
}

# The reason comes from the latest attempt. Planned trials that never started have no row in any view.
_REASONS = """
with reasons as (
    select
        trials.benchmark,
        trials.agent,
        trials.condition,
        trials.task_id,
        trials.variant_id,
        trials.experiment_id,
        case
            when failed.stream_id is not null then coalesce(failed.boundary, 'unknown')
            when attempts.attempt_state = 'ungraded' then 'grader (incomplete results)'
            else 'interrupted'
        end as boundary,
        coalesce(failed.error_kind, attempts.attempt_state) as error_kind,
        coalesce(failed.is_retry_owed, true) as is_retry_owed
    from trials
    inner join int_trials as kept on trials.trial_id = kept.trial_id
    inner join int_attempts as attempts on kept.keys_stream_id = attempts.stream_id
    left join stg_trials_failed as failed on attempts.stream_id = failed.stream_id
    where
        trials.trial_state = 'missing'
        and (getvariable('experiment') is null or trials.experiment_id = getvariable('experiment'))
)
"""
_BY_BOUNDARY = """
select boundary, error_kind, benchmark, agent, count(*), count(*) filter (where is_retry_owed)
from reasons group by all order by count(*) desc, 1, 2, 3, 4
"""
_BY_CELL = """
select benchmark, coalesce(variant_id, task_id), agent, condition, count(*),
    string_agg(distinct boundary, ', ' order by boundary)
from reasons group by all order by count(*) desc, 1, 2, 3, 4
"""
_UNSTARTED = "select coalesce(sum(n), 0) from exclusions where kind = 'unstarted_trials'"
_MOST_CELLS = 200
_NUMBER = re.compile(r"-|-?[\d,]+(\.\d+)?")

GridCell = tuple[str, bool]
"""A text, and whether it is a number. Numbers are right-aligned."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the page."""

    caption: str
    head: tuple[GridCell, ...]
    rows: tuple[tuple[GridCell, ...], ...]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Tables of trials, costs and runs, and long texts with titles that the page shows collapsed."""

    grids: tuple[Grid, ...]
    folded: tuple[tuple[str, str], ...]


class MissingTrials(msgspec.Struct, frozen=True, kw_only=True):
    """Tables of missing trials by boundary and by cell, with the text above and below them."""

    note: str
    grids: tuple[Grid, ...] = ()
    left_out: str = ""


def facts(
    connection: "duckdb.DuckDBPyConnection", settings: Mapping[str, Any], counts: Sequence[Mapping[str, Any]]
) -> Facts:
    """Collect the trials and their costs, the runs, their configurations and packages, and the analysis parameters.

    ``counts`` are the rows of the table ``trial_counts_and_cost``.
    """
    runs = connection.execute(_RUNS).fetchall()
    details = connection.execute(_CONFIGURATIONS).fetchall()
    parameters = "\n".join(f"{name} = {'unset' if value is None else value}" for name, value in settings.items())
    return Facts(
        grids=(
            grid(tuple(_TRIALS_COLUMNS), _trials(counts), caption="Trials and their cost"),
            grid(_RUN_HEAD, runs, caption="Runs"),
        ),
        folded=(
            *((f"Configuration of {name}", _pretty(config)) for name, config, _ in details),
            *((f"Packages of {name}", "\n".join(names)) for name, _, names in details if names),
            ("Parameters that the numbers depend on", parameters),
        ),
    )


def missing(connection: "duckdb.DuckDBPyConnection") -> MissingTrials:
    """Collect the trials without a valid attempt. They are missing data and never count as failures."""
    boundaries = connection.execute(_REASONS + _BY_BOUNDARY).fetchall()
    ((unstarted,),) = connection.execute(_UNSTARTED).fetchall()
    planned = f"Trials of the last plan that were never started: {unstarted}."
    if not boundaries:
        return MissingTrials(note=f"No started trial is missing. {planned}")
    cells = connection.execute(_REASONS + _BY_CELL).fetchall()
    return MissingTrials(
        note=f"A missing trial failed at a boundary. It is missing data and never counts as a failure. {planned}",
        grids=(
            grid(
                ("boundary", "error", "benchmark", "agent", "trials", "retry owed"),
                boundaries,
                caption="Missing trials by boundary",
            ),
            grid(
                ("benchmark", "variant or task", "agent", "condition", "trials", "boundaries"),
                cells[:_MOST_CELLS],
                caption="Missing trials by cell",
            ),
        ),
        left_out=f"The {_MOST_CELLS} of {len(cells)} cells with the most missing trials."
        if len(cells) > _MOST_CELLS
        else "",
    )


def grid(head: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str) -> Grid:
    """Build a table. The heading of a column with numbers is right-aligned, too."""
    lines = [tuple(_cell(value) for value in row) for row in rows]
    numeric = [any(is_number for _, is_number in column) for column in zip(*lines, strict=True)] or [False] * len(head)
    return Grid(caption=caption, head=tuple(zip(head, numeric, strict=True)), rows=tuple(lines))


def _cell(value: Any) -> GridCell:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    text = "-" if value is None else f"{value:,}" if is_whole else str(value)
    return text, isinstance(value, str | int | None) and _NUMBER.fullmatch(text) is not None


def _trials(counts: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return the counts and costs per benchmark, agent and role, and a total if there are several rows."""
    wanted = (row for row in counts if row["condition"] == row["purpose"] == "all")
    found = {(row["benchmark"], row["agent"], row["role"]): _with_tokens(row) for row in wanted}
    parts = [found[key] for key in sorted(found) if "all" not in key]
    sums = [found["all", "all", "all"]] if len(parts) > 1 else []
    return [[_shown(column, row[column]) for column in _TRIALS_COLUMNS.values()] for row in (*parts, *sums)]


def _with_tokens(row: Mapping[str, Any]) -> dict[str, Any]:
    tokens = row["input_tokens"], row["output_tokens"]
    return {**row, "tokens": None if None in tokens else sum(tokens)}


def _shown(column: str, value: Any) -> Any:
    if column.endswith("_usd"):
        return "unknown cost" if value is None else f"{value:,.4f}"
    if column.endswith("_seconds"):
        return "unknown" if value is None else f"{value:,.0f}"
    if column == "tokens":
        return "unknown" if value is None else value
    return value


def _pretty(config: str) -> str:
    try:
        return json.dumps(json.loads(config), indent=2, ensure_ascii=False)
    except ValueError:
        return config
