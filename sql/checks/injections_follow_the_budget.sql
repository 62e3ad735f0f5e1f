-- view: injections_follow_the_budget
-- grain: trial_id
-- inputs: int_injections
-- outputs:
--   trial_id, budget_actions, inject_percent
--   computed_target_action bigint: target recomputed
--   target_action bigint: target action a, as recorded
--   after_action bigint: action after which the message was inserted
--   action_count bigint: actions of the attempt that counts
--   injection_status varchar: injected or skipped
-- equation: target = max(1, B * p div 100), and the message was inserted at the target
--     action or later, within the trial
-- source: docs/metrics.md 4, injection action
-- notes: returns the valid trials of the injected conditions that break the rule, even
--     those without a recorded injection. A skipped injection has no action. If an
--     import lacks the budget, the target cannot be checked.
select
    trial_id,
    budget_actions,
    inject_percent,
    computed_target_action,
    target_action,
    after_action,
    action_count,
    injection_status
from int_injections
where
    injection_status is null
    or target_action <> computed_target_action
    or (target_action is null and computed_target_action is not null)
    or (
        injection_status = 'injected'
        and (
            after_action is null
            or after_action < target_action
            or after_action > action_count
        )
    )
