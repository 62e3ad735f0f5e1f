-- view: int_tasks_selected
-- grain: benchmark, task_id
-- inputs: int_cells, int_trials
-- outputs:
--   benchmark, task_id
--   domain varchar: domain of the task; unknown without one
--   n_agents bigint: reference agents with a value
--   checkpoint_progress double: mean over reference agents, 0 to 1
--   is_selected boolean: checkpoint_progress reaches the threshold
--   is_solvable boolean: pass@k > 0 for a reference agent; null if no pass@k is known
--   n_trials, n_missing, cluster_id
-- equation: checkpoint_progress = mean over agents of the mean over the task's full
--     trials
-- source: docs/metrics.md 6, task_selection [LHAW 3.1 and table 15]; parameters
--     `reference_agents`, `selection_progress_pct`
-- notes: the values use full trials of the reference agents. If `reference_agents` is
--     unset, these are all evaluated agents. A task without a value is not selected.
with units as (
    select
        benchmark,
        task_id,
        checkpoint_progress,
        pass_at_k,
        n_trials,
        n_missing,
        cluster_id
    from int_cells
    where
        unit_kind = 'task'
        and condition = 'full'
        and (
            getvariable('reference_agents') is null
            or list_contains(
                string_split(getvariable('reference_agents'), ','), agent
            )
        )
),

domains as (
    select
        benchmark,
        task_id,
        arg_max(domain, (recorded_at_us, trial_id)) as domain
    from int_trials
    group by benchmark, task_id
),

averaged as (
    select
        benchmark,
        task_id,
        count(checkpoint_progress) as n_agents,
        avg(checkpoint_progress) as checkpoint_progress,
        bool_or(pass_at_k > 0) as is_solvable,
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing,
        any_value(cluster_id) as cluster_id
    from units
    group by benchmark, task_id
)

select
    averaged.benchmark,
    averaged.task_id,
    coalesce(domains.domain, 'unknown') as domain,
    averaged.n_agents,
    averaged.checkpoint_progress,
    coalesce(
        round(100 * averaged.checkpoint_progress, 6)
        >= getvariable('selection_progress_pct'),
        false
    ) as is_selected,
    averaged.is_solvable,
    averaged.n_trials,
    averaged.n_missing,
    averaged.cluster_id
from averaged
inner join domains
    on averaged.benchmark = domains.benchmark and averaged.task_id = domains.task_id
