-- view: stg_trials_finished
-- grain: stream_id
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event trial_finished
-- notes: one row is one attempt that ran to its end.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    trial_finished.ended_by,
    trial_finished.is_success,
    trial_finished.final_answer,
    trial_finished.action_count,
    trial_finished.checkpoint_count,
    trial_finished.duration_ms,
    trial_finished.final_score,
    trial_finished.final_total,
    trial_finished.cost_usd
from events
where type = 'trial_finished'
