-- view: int_injections
-- grain: trial_id
-- inputs: int_trials
-- outputs:
--   trial_id, stream_id, benchmark, agent, task_id, variant_id, condition, trial_index,
--   inject_percent, budget_actions
--   computed_target_action bigint: target recomputed
--   injection_status varchar: injected or skipped
--   target_action bigint: target action a, as recorded
--   after_action bigint: action after which the message was inserted
--   is_injected boolean: the message was inserted; null unless injected condition
--   action_count bigint: actions that the runner counted
--   is_collapsed boolean: another percentage gives the same action
-- equation: target = max(1, B * p div 100) for p in 10, 30, 50, 70, 90
-- source: docs/metrics.md 4, budget and injection action
-- notes: the valid trials of the injected conditions. The mart injections also has the
--     messages. If is_collapsed, another p of the unit has the same target, so the
--     conditions do not differ. Target and flag are null without a budget.
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
    from int_trials
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
