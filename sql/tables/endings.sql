-- view: endings
-- grain: benchmark, agent, condition, ended_by, finish_reason
-- inputs: ambiguity_classes, int_task_clusters, int_trials, int_trials_screened,
--     trial_endings
-- outputs:
--   benchmark, agent, condition
--   ended_by varchar: how the agent's part ended (docs/metrics.md 1), or unknown
--   finish_reason varchar: why the agent's last reply ended; unknown, or all
--   measure, value, low, high, n_units, n_dropped, n_clusters
--   n_trials bigint: valid trials with this ending
--   n_asking bigint: of these, trials whose last text asks the user a question or for
--       permission and gets no answer; null if unknown for all
--   n_all_trials bigint: valid trials of the arm
--   n_missing bigint: started trials of the arm that are neither valid nor running
--   progress double: mean checkpoint progress of the trials with this ending, 0 to 1
--   is_excluded boolean: left out of the other tables by `exclude_endings`
--   method, reason
-- equation: ending_pct = 100 * trials with this ending / valid trials of the arm
-- source: docs/metrics.md 1, endings and prose; parameter `exclude_endings`
-- notes: the trials are those that the tables use, and those that only
--     `exclude_endings` leaves out. Units are the tasks of the arm. The row with finish
--     reason all sums the finish reasons of an ending. It is left out if the ending has
--     only one.
with trials as (
    select
        measured.benchmark,
        measured.agent,
        measured.condition,
        measured.task_id,
        measured.trial_state,
        measured.checkpoint_progress,
        coalesce(measured.ended_by, 'unknown') as ended_by,
        coalesce(endings.finish_reason, 'unknown') as finish_reason,
        endings.asks in ('question', 'permission') as is_asking,
        measured.is_ending_excluded
    from int_trials as measured
    inner join int_trials_screened as screened
        on measured.trial_id = screened.trial_id
    left join trial_endings as endings
        on measured.trial_id = endings.trial_id
    left join ambiguity_classes
        on measured.variant_digest = ambiguity_classes.variant_digest
    where
        coalesce(screened.exclusion = 'excluded_ending', true)
        and ambiguity_classes.ambiguity_class is distinct from 'new_task'
),

arm_tasks as (
    select
        benchmark,
        agent,
        condition,
        task_id,
        nullif(count(*) filter (where trial_state = 'valid'), 0) as n_all,
        count(*) filter (where trial_state = 'missing') as n_missing
    from trials
    group by benchmark, agent, condition, task_id
),

ended as (
    select
        benchmark,
        agent,
        condition,
        ended_by,
        unnest([finish_reason, 'all']) as finish_reason,
        task_id,
        checkpoint_progress,
        is_asking,
        is_ending_excluded
    from trials
    where trial_state = 'valid'
),

kinds as (
    select
        benchmark,
        agent,
        condition,
        ended_by,
        finish_reason,
        count(*) as n_trials,
        avg(checkpoint_progress) as progress,
        sum(is_asking::int)::bigint as n_asking,
        bool_or(is_ending_excluded) as is_excluded,
        count(distinct finish_reason) over (
            partition by benchmark, agent, condition, ended_by
        ) as n_kinds
    from ended
    group by benchmark, agent, condition, ended_by, finish_reason
),

per_task as (
    select
        benchmark,
        agent,
        condition,
        ended_by,
        finish_reason,
        task_id,
        count(*) as n_ended
    from ended
    group by benchmark, agent, condition, ended_by, finish_reason, task_id
),

estimated as (
    select
        kinds.benchmark,
        kinds.agent,
        kinds.condition,
        kinds.ended_by,
        kinds.finish_reason,
        any_value(kinds.n_trials) as n_trials,
        any_value(kinds.n_asking) as n_asking,
        any_value(kinds.progress) as progress,
        any_value(kinds.is_excluded) as is_excluded,
        sum(arm_tasks.n_all)::bigint as n_all_trials,
        sum(arm_tasks.n_missing)::bigint as n_missing,
        percent_estimate(
            case
                when arm_tasks.n_all is not null then coalesce(per_task.n_ended, 0)
            end,
            arm_tasks.n_all,
            'no_valid_trials',
            clusters.cluster_id
        ) as estimate
    from kinds
    inner join arm_tasks
        on
            kinds.benchmark = arm_tasks.benchmark
            and kinds.agent = arm_tasks.agent
            and kinds.condition = arm_tasks.condition
    inner join int_task_clusters as clusters
        on
            arm_tasks.benchmark = clusters.benchmark
            and arm_tasks.task_id = clusters.task_id
    left join per_task
        on
            kinds.benchmark = per_task.benchmark
            and kinds.agent = per_task.agent
            and kinds.condition = per_task.condition
            and kinds.ended_by = per_task.ended_by
            and kinds.finish_reason = per_task.finish_reason
            and arm_tasks.task_id = per_task.task_id
    where kinds.finish_reason <> 'all' or kinds.n_kinds > 2
    group by
        kinds.benchmark,
        kinds.agent,
        kinds.condition,
        kinds.ended_by,
        kinds.finish_reason
)

select
    benchmark,
    agent,
    condition,
    ended_by,
    finish_reason,
    'ending_pct' as measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    n_trials,
    n_asking,
    n_all_trials,
    n_missing,
    round(progress, 6) as progress,
    is_excluded,
    estimate.method,
    estimate.reason
from estimated
