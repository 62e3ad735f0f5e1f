-- view: task_selection
-- grain: benchmark, domain, measure
-- inputs: int_group_estimates, int_tasks_selected
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: all
--   domain varchar: domain of the tasks; unknown without one; all
--   measure varchar: what is measured
--   value double: the mean, ratio or count
--   low double: lower bound
--   high double: upper bound
--   n_units bigint: units with a value
--   n_dropped bigint: units without a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   method varchar: wilson, percentile or bca
--   reason varchar: why something is null
-- equation: tasks = those selected; solvable_tasks = selected ones that a reference
--     agent solved (pass@k > 0); checkpoint_progress = mean over selected tasks of the
--     mean over reference agents
-- source: docs/metrics.md 6 [LHAW table 15]; parameters `reference_agents`,
--     `selection_progress_pct`
-- notes: considered_tasks counts every task with full trials of reference agents.
--     Counts have no interval; n_dropped are tasks of which the count cannot tell. The
--     progress of selected tasks is high because they were selected by it: it estimates
--     no other task's.
with tasks as (
    select
        benchmark,
        unnest([domain, 'all']) as domain,
        checkpoint_progress,
        is_selected,
        is_solvable,
        n_trials,
        n_missing
    from int_tasks_selected
),

counted as (
    select
        benchmark,
        domain,
        unnest(
            [
                {
                    'measure': 'considered_tasks',
                    'value': count(*),
                    'n_dropped': 0
                },
                {
                    'measure': 'tasks',
                    'value': count(*) filter (where is_selected),
                    'n_dropped': count(*) - count(checkpoint_progress)
                },
                {
                    'measure': 'solvable_tasks',
                    'value': count(*) filter (where is_selected and is_solvable),
                    'n_dropped': count(*) filter (
                        where is_selected and is_solvable is null
                    )
                }
            ]
        ) as counted,
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from tasks
    group by benchmark, domain
)

select
    benchmark,
    'all' as agent,
    domain,
    counted.measure,
    counted.value::double as value,
    null::double as low,
    null::double as high,
    counted.value as n_units,
    counted.n_dropped,
    n_trials,
    n_missing,
    null::varchar as method,
    'count' as reason
from counted
union all
select
    benchmark,
    agent,
    group_name as domain,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason
from int_group_estimates
where table_name = 'task_selection'
