-- view: stg_clarifications_injected
-- grain: stream_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   injection_status varchar: injected or skipped
--   inject_percent
--   target_action bigint: target action a, as recorded; null if unknown
--   after_action bigint: action after which the message was inserted
--   message varchar: the inserted text; null if unknown
--   segment_ids varchar[]: segments that the message gives; null if unknown
--   skip_reason varchar: why it was skipped
-- equation: none; renames the fields of one event type
-- source: recorder/events, event clarification_injected
-- notes: one row is one injection, made or skipped.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    clarification_injected.status as injection_status,
    clarification_injected.inject_percent,
    clarification_injected.target_action,
    clarification_injected.after_action,
    clarification_injected.message,
    clarification_injected.segment_ids,
    clarification_injected.reason as skip_reason
from events
where type = 'clarification_injected'
