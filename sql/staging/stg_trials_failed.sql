-- view: stg_trials_failed
-- grain: stream_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   boundary varchar: boundary that failed; null if unknown
--   error_kind varchar: kind of error
--   message varchar: what happened
--   is_retry_owed boolean: the next run makes another attempt
--   duration_ms double: wall time, milliseconds; null if unknown
--   cost_usd double: USD; null if a price is unknown
--   charged_ms double: time of the agent's own work, which max_seconds limits; null if
--       unknown
--   waited_ms double: time that the agent waited for infrastructure; null if unknown
--   late_ms double: part of waited_ms in which the recorder was late; null if unknown
--   stated_usage struct: tokens of the agent that an import's source states; null if it
--       states none
-- equation: none; renames the fields of one event type
-- source: recorder/events, event trial_failed
-- notes: one row is one attempt that failed because of infrastructure.
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
    trial_failed.cost_usd,
    trial_failed.charged_ms,
    trial_failed.waited_ms,
    trial_failed.late_ms,
    trial_failed.stated_usage
from events
where type = 'trial_failed'
