-- view: int_injections
-- grain: trial_id
-- inputs: int_trials_measured
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
--   is_injected boolean: the message was really inserted; null unless injected
--       condition
--   action_count bigint: actions as the runner counted them
--   is_collapsed boolean: another percentage gives the same action
-- equation: target = max(1, B * p div 100) for p in 10, 30, 50, 70, 90
-- source: docs/metrics.md 4, budget and injection action
-- notes: valid trials of the injected conditions; the mart injections has the words
--     too. is_collapsed: another p of the unit has the same target, so the conditions
--     do not differ. Target and flag are null without a budget.
with injected as (
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
        case
            when budget_actions is not null
                then greatest(1, budget_actions * inject_percent // 100)
        end as computed_target_action,
        injection_status,
        target_action,
        injected_after_action as after_action,
        is_injected,
        action_count
    from int_trials_measured
    where trial_state = 'valid' and inject_percent is not null
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
    computed_target_action,
    injection_status,
    target_action,
    after_action,
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
