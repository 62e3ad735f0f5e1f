-- view: actions
-- grain: stream_id, action_index
-- inputs:
-- outputs:
-- equation: none
-- source: METRICS 1, actions
-- notes: every attempt; `is_counted` marks those of the attempt that counts. What came
--     back is null where the action never finished.
select
    started.stream_id,
    started.action_index,
    started.trial_id,
    started.attempt,
    int_trials.stream_id is not null as is_counted,
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
left join int_trials
    on started.stream_id = int_trials.stream_id
