-- view: stg_actions_started
-- grain: stream_id, action_index
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt, action_index
--   kind varchar: tool, text or malformed
--   action_name varchar: tool name; empty for a turn of text
--   arguments_json varchar: canonical JSON, or raw text where malformed
--   model_call_id varchar: call that the action served; null if unknown
--   call_id varchar: id of the call in its stream
--   elapsed_ms double: milliseconds since the stream began
-- equation: none; renames the fields of one event type
-- source: recorder/events, event action_started
-- notes: one row is one action before its execution. In an import elapsed_ms is the
--     time of importing.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    action_started.action_index,
    action_started.kind,
    action_started.name as action_name,
    action_started.arguments_json,
    action_started.model_call_id,
    action_started.call_id,
    elapsed_ns / 1e6 as elapsed_ms
from events
where type = 'action_started'
