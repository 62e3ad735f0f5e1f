-- view: budgets_count_full_trials
-- grain: stream_id, sequence, trial_id
-- inputs: budgets, discarded_attempts, int_trials
-- outputs:
--   stream_id, sequence, trial_id
--   recorded_action_count bigint: as recorded
--   condition, trial_state
--   action_count bigint: actions of the attempt that counts
-- equation: the trials of a budget are valid trials of `full` with the recorded action
--     counts
-- source: docs/metrics.md 4, budget
-- notes: returns the trials that break the rule. Trials that this store lacks break it.
--     Trials with an attempt that was set aside later do not, and their budget stays.
with used as (
    select
        stream_id,
        sequence,
        unnest(trial_ids) as trial_id,
        unnest(action_counts) as recorded_action_count
    from budgets
)

select
    used.stream_id,
    used.sequence,
    used.trial_id,
    used.recorded_action_count,
    trials.condition,
    trials.trial_state,
    trials.action_count
from used
left join int_trials as trials
    on used.trial_id = trials.trial_id
where
    used.trial_id not in (
        select discarded.trial_id from discarded_attempts as discarded
    )
    and (
        trials.trial_state is distinct from 'valid'
        or trials.condition <> 'full'
        or trials.action_count <> used.recorded_action_count
    )
