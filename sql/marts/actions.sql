-- view: actions
-- grain: stream_id, action_index
-- inputs: int_attempts, stg_actions_finished, stg_actions_started
-- outputs:
--   stream_id, action_index, trial_id, attempt
--   is_counted boolean: belongs to the attempt that counts
--   kind varchar: tool, text or malformed
--   action_name varchar: tool name; empty for a turn of text
--   arguments_json varchar: canonical JSON, or raw text where malformed
--   model_call_id varchar: call that the action served; null if unknown
--   call_id varchar: id of the call in its stream
--   is_error boolean: the agent got an error; null if unknown
--   result varchar: result of the action; null if unknown
--   duration_ms double: milliseconds; null if unknown
--   server varchar: MCP server
--   server_pid bigint: its process
-- equation: none
-- source: docs/metrics.md 1, actions
-- notes: the actions of all attempts; `is_counted` marks the attempt that counts. The
--     result is null if the action never finished.
select
    started.stream_id,
    started.action_index,
    started.trial_id,
    started.attempt,
    coalesce(attempts.is_counted, false) as is_counted,
    started.kind,
    started.action_name,
    started.arguments_json,
    started.model_call_id,
    started.call_id,
    finished.is_error,
    finished.result,
    finished.duration_ms,
    finished.server,
    finished.server_pid
from stg_actions_started as started
left join stg_actions_finished as finished
    on
        started.stream_id = finished.stream_id
        and started.action_index = finished.action_index
left join int_attempts as attempts
    on started.stream_id = attempts.stream_id
