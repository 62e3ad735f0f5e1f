-- view: stg_clarifications_injected
-- grain: stream_id
-- inputs: events
-- outputs:
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
