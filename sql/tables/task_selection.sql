-- view: task_selection
-- grain: benchmark, domain, measure
-- inputs: int_tasks_selected
-- outputs:
--   benchmark
--   agent varchar: all
--   domain varchar: domain of the tasks, unknown, or all
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing,
--   method, reason
-- equation: tasks = selected tasks; solvable_tasks = selected tasks that a reference
--     agent solved (pass@k > 0); checkpoint_progress = mean over selected tasks of the
--     mean over reference agents
-- source: docs/metrics.md 6 [LHAW table 15]; parameters `reference_agents`,
--     `selection_progress_pct`
-- notes: considered_tasks counts every task with full trials of reference agents.
--     Counts have no interval; n_dropped counts tasks for which the count is unknown.
--     Because tasks are selected by their progress, the progress of selected tasks is
--     biased upwards. It does not estimate the progress of other tasks.
with tasks as (
    select
        benchmark,
        unnest([domain, 'all']) as domain,
        checkpoint_progress,
        is_selected,
        is_solvable,
        task_id,
        n_trials,
        n_missing,
        cluster_id
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
                    'number': count(*),
                    'n_unknown': 0
                },
                {
                    'measure': 'tasks',
                    'number': count(*) filter (where is_selected),
                    'n_unknown': count(*) - count(checkpoint_progress)
                },
                {
                    'measure': 'solvable_tasks',
                    'number': count(*) filter (where is_selected and is_solvable),
                    'n_unknown': count(*) filter (
                        where is_selected and is_solvable is null
                    )
                }
            ]
        ) as counted,
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing,
        count(distinct cluster_id) as n_clusters
    from tasks
    group by benchmark, domain
),

estimated as (
    select
        benchmark,
        domain,
        'checkpoint_progress' as measure,
        table_estimate(
            'checkpoint_progress',
            checkpoint_progress,
            1,
            null::varchar,
            cluster_id,
            task_id,
            n_trials,
            n_missing
        ) as estimate
    from tasks
    where is_selected
    group by benchmark, domain
),

united as (
    select
        benchmark,
        domain,
        counted.measure,
        struct_update(
            table_count(counted.number, n_clusters, n_trials, n_missing),
            n_dropped := counted.n_unknown::bigint
        ) as estimate
    from counted
    union all
    select
        benchmark,
        domain,
        measure,
        estimate
    from estimated
)

select
    benchmark,
    'all' as agent,
    domain,
    measure,
    estimate.*
from united
