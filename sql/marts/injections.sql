-- view: injections
-- grain: trial_id
-- inputs: stg_clarifications_injected, trials
-- outputs:
--   trial_id varchar: the trial
--   stream_id varchar: the attempt, or run, in the event stream
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   task_id varchar: id of the task
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   trial_index bigint: index of the trial in its cell
--   inject_percent bigint: p of inject_p
--   budget_actions bigint: oracle budget B, actions
--   computed_target_action bigint: target recomputed
--   injection_status varchar: injected or skipped
--   target_action bigint: a, as recorded
--   after_action bigint: action after which the message went in
--   skip_reason varchar: why it was skipped
--   segment_ids varchar[]: segments told
--   is_injected boolean: the message was really inserted; null unless injected
--       condition
--   action_count bigint: actions of the attempt that counts
--   is_collapsed boolean: another percentage gives the same action
-- equation: target = max(1, B * p div 100) for p in 10, 30, 50, 70, 90
-- source: docs/metrics.md 4, budget and injection action
-- notes: valid trials of the injected conditions. is_collapsed: another p of the unit
--     has the same target, so the conditions do not differ. Target and flag are null
--     without a budget.
with messages as (
    select
        stream_id,
        injection_status,
        target_action,
        after_action,
        skip_reason,
        segment_ids
    from stg_clarifications_injected
),

injected as (
    select
        trials.trial_id,
        trials.stream_id,
        trials.benchmark,
        trials.agent,
        trials.task_id,
        trials.variant_id,
        trials.condition,
        trials.trial_index,
        trials.inject_percent,
        trials.budget_actions,
        greatest(1, trials.budget_actions * trials.inject_percent // 100)
            as computed_target_action,
        messages.injection_status,
        messages.target_action,
        messages.after_action,
        messages.skip_reason,
        messages.segment_ids,
        trials.is_injected,
        trials.action_count
    from trials
    left join messages on trials.stream_id = messages.stream_id
    where trials.trial_state = 'valid' and trials.inject_percent is not null
)

select
    trial_id,
    stream_id,
    benchmark,
    agent,
    task_id,
    variant_id,
    condition,
    trial_index,
    inject_percent,
    budget_actions,
    case when budget_actions is not null then computed_target_action end
        as computed_target_action,
    injection_status,
    target_action,
    after_action,
    skip_reason,
    segment_ids,
    is_injected,
    action_count,
    case
        when budget_actions is not null
            then len(
                list_filter(
                    [10, 30, 50, 70, 90],
                    lambda p: greatest(1, budget_actions * p // 100)
                    = computed_target_action
                )
            ) > 1
    end as is_collapsed
from injected
