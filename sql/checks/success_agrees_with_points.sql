-- view: success_agrees_with_points
-- grain: trial_id
-- inputs: int_task_checkpoints, int_trials
-- outputs:
--   trial_id, benchmark, is_success
--   has_enough_points boolean: success by the points
--   scores double[]: raw points in order
--   totals double[]: points in order
-- equation: desk, tac: success iff all points are reached; mcp_atlas: success iff the
--     mean of the claims' scores, rounded to 3 places, is >= 0.75
-- source: docs/metrics.md 1, success
-- notes: returns the valid trials of these benchmarks that break the rule. If the
--     benchmark gives a final score, the points of that score count, because a scoring
--     strategy may have changed the sum of the checkpoints.
with totals as (
    select
        task_digest,
        list(total order by position) as totals
    from int_task_checkpoints
    group by task_digest
),

graded as (
    select
        trials.trial_id,
        trials.benchmark,
        trials.is_success,
        trials.scores,
        totals.totals,
        case
            when trials.benchmark = 'mcp_atlas'
                then round(list_avg(trials.scores), 3) >= 0.75
            else trials.checkpoint_progress >= 1
        end as has_enough_points
    from int_trials as trials
    inner join totals
        on trials.task_digest = totals.task_digest
    where
        trials.trial_state = 'valid'
        and trials.benchmark in ('desk', 'tac', 'mcp_atlas')
)

select
    trial_id,
    benchmark,
    is_success,
    has_enough_points,
    scores,
    totals
from graded
where is_success <> has_enough_points
