-- view: int_attempts_timed
-- grain: stream_id
-- inputs: int_attempts, int_tool_times
-- outputs:
--   stream_id, trial_id
--   is_counted boolean: the attempt gives the trial its values
--   is_failed boolean: the attempt ended and does not count
--   tool_seconds double: time of actions; null if unknown
--   wall_seconds double: wall time; null if unknown
-- equation: none
-- source: docs/metrics.md 1 and 8
-- notes: a running attempt is neither counted nor failed. The times of an imported
--     attempt without finished actions are unknown unless it had no actions.
select
    attempts.stream_id,
    attempts.trial_id,
    attempts.is_counted,
    attempts.is_failed,
    case
        when tools.stream_id is not null then tools.tool_seconds
        when not attempts.is_imported or attempts.recorded_action_count = 0 then 0
    end as tool_seconds,
    attempts.duration_ms / 1000 as wall_seconds
from int_attempts as attempts
left join int_tool_times as tools
    on attempts.stream_id = tools.stream_id
