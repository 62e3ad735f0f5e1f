-- view: stg_actions_finished
-- grain: stream_id, action_index
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event action_finished
-- notes: one row is one action that gave something back.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    action_finished.action_index,
    action_finished.is_error,
    action_finished.result,
    action_finished.duration_ms,
    action_finished.server,
    action_finished.server_pid
from events
where type = 'action_finished'
