"""Which trials are missing, by the boundary that failed and by cell: missing data, never failures."""

from typing import TYPE_CHECKING

from analytics.report.markup import Markup, grid, tag

if TYPE_CHECKING:
    import duckdb

# The reason is that of the latest attempt. A trial that a run planned and never started has no row anywhere.
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


def missing(connection: "duckdb.DuckDBPyConnection") -> Markup:
    """Return the missing trials as HTML, by boundary and by cell."""
    boundaries = connection.execute(_REASONS + _BY_BOUNDARY).fetchall()
    unstarted = connection.execute(
        "select coalesce(sum(n), 0) from exclusions where kind = 'unstarted_trials'"
    ).fetchall()
    planned = f"Trials of the last plan that were never started: {unstarted[0][0]}."
    if not boundaries:
        return _note("No started trial is missing.", planned)
    cells = connection.execute(_REASONS + _BY_CELL).fetchall()
    left_out = f"The {_MOST_CELLS} cells with most missing trials of {len(cells)}." if len(cells) > _MOST_CELLS else ""
    return tag(
        "div",
        _note("A missing trial failed at a boundary. It is missing data and never counts as a failure.", planned),
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
        tag("p", left_out) if left_out else None,
    )


def _note(*sentences: str) -> Markup:
    return tag("p", " ".join(sentences))
