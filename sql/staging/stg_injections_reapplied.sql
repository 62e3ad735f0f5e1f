-- view: stg_injections_reapplied
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   model_call_id varchar: first call with the message at the new place
--   thread_id varchar: conversation in the trial
--   place varchar: top
-- equation: none; renames the fields of one event type
-- source: recorder/events, event injection_reapplied
-- notes: one row is one move of an injected message whose anchor was lost.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    injection_reapplied.model_call_id,
    injection_reapplied.thread_id,
    injection_reapplied.place
from events
where type = 'injection_reapplied'
