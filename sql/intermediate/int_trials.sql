-- view: int_trials
-- grain: trial_id
-- inputs: int_attempts
-- outputs:
--   trial_id varchar: the trial
--   trial_state varchar: valid, missing or running
--   stream_id varchar: the attempt, or run, in the event stream
--   keys_stream_id varchar: attempt that gives the keys
--   attempts bigint: attempts started, whatever became of them
--   failed_attempts bigint: attempts that ended and do not count
-- equation: none
-- source: docs/metrics.md 1: the highest-numbered valid attempt counts; of equal
--     numbers, which hosts of a shared store can give, the one that began last
-- notes: `stream_id` is the attempt that counts, null where none is valid;
--     `keys_stream_id` is that one, else the latest, and gives the keys of the trial.
with summarised as (
    select
        trial_id,
        arg_max(stream_id, (attempt, began_at_us, stream_id))
        filter (where attempt_state = 'valid') as stream_id,
        arg_max(stream_id, (attempt, stream_id)) as latest_stream_id,
        bool_or(attempt_state = 'running') as has_running,
        count(*) as attempts,
        count(*) filter (
            where attempt_state in ('failed', 'ungraded', 'interrupted')
        ) as failed_attempts
    from int_attempts
    group by trial_id
)

select
    trial_id,
    case
        when stream_id is not null then 'valid'
        when has_running then 'running'
        else 'missing'
    end as trial_state,
    stream_id,
    coalesce(stream_id, latest_stream_id) as keys_stream_id,
    attempts,
    failed_attempts
from summarised
