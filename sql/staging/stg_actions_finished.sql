-- view: stg_actions_finished
-- grain: stream_id, action_index
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt, action_index
--   is_error boolean: the agent got an error; null if unknown
--   result varchar: result of the action; null if unknown
--   duration_ms double: milliseconds; null if unknown
--   server varchar: MCP server
--   server_pid bigint: its process
--   limit_met varchar: key of the limit under [limits] that stopped it; null if none or
--       unknown
--   limits_watched varchar[]: keys of the limits that were watched; null if unknown
-- equation: none; renames the fields of one event type
-- source: recorder/events, event action_finished
-- notes: one row is one action that returned a result.
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
    action_finished.server_pid,
    action_finished.limit_met,
    action_finished.limits_watched
from events
where type = 'action_finished'
