-- view: int_trial_times
-- grain: trial_id
-- inputs: int_attempts, int_trials, stg_actions_finished
-- outputs:
--   trial_id varchar: the trial
--   wall_seconds double: wall time of the attempts that count
--   failed_wall_seconds double: their wall time
--   tool_seconds double: time of actions
-- equation: tool time = sum of the actions' durations, the questions' among them
-- source: docs/metrics.md 8
-- notes: of the attempt that counts; wall time of other ended attempts apart.
with tools as (
    select
        stream_id,
        sum(duration_ms order by action_index) / 1000 as tool_seconds
    from stg_actions_finished
    group by stream_id
)

select
    attempts.trial_id,
    sum(attempts.duration_ms) filter (where trials.stream_id is not null) / 1000
        as wall_seconds,
    coalesce(
        sum(attempts.duration_ms) filter (where trials.stream_id is null), 0
    ) / 1000 as failed_wall_seconds,
    coalesce(
        sum(tools.tool_seconds) filter (where trials.stream_id is not null), 0
    ) as tool_seconds
from int_attempts as attempts
left join int_trials as trials on attempts.stream_id = trials.stream_id
left join tools on attempts.stream_id = tools.stream_id
group by attempts.trial_id
