-- view: injections_follow_the_budget
-- grain: trial_id
-- inputs:
-- outputs:
-- equation: target = max(1, B * p div 100), and the message went in at the target action
--     or later, within the trial
-- source: METRICS 4, injection action
-- notes: valid trials of the injected conditions; a skipped injection has no place.
--     Returns the trials that break it, those without a recorded injection too.
select
    trial_id,
    budget_actions,
    inject_percent,
    computed_target_action,
    target_action,
    after_action,
    action_count,
    injection_status
from injections
where
    injection_status is null
    or target_action is distinct from computed_target_action
    or (
        injection_status = 'injected'
        and (
            after_action is null
            or after_action < target_action
            or after_action > action_count
        )
    )
