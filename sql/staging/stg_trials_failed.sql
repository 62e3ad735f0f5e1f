-- view: stg_trials_failed
-- grain: stream_id
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event trial_failed
-- notes: one row is one attempt that infrastructure ended.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    trial_failed.boundary,
    trial_failed.error_kind,
    trial_failed.message,
    trial_failed.is_retry_owed,
    trial_failed.duration_ms,
    trial_failed.cost_usd
from events
where type = 'trial_failed'
