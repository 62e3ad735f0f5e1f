-- view: int_attempts
-- grain: stream_id
-- inputs: int_task_checkpoints, int_tasks, live_streams, stg_checkpoints_scored,
--     stg_trials_failed, stg_trials_finished, stg_trials_started
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   trial_id varchar: the trial
--   attempt integer: number of the attempt, from 1
--   attempt_state varchar: valid, ungraded, failed, running or interrupted
--   duration_ms double: wall time, milliseconds; null without an end
-- equation: valid = finished, and exactly one primary result for every checkpoint of
--     the task
-- source: docs/metrics.md 1, valid, missing and running
-- notes: states are valid, ungraded, failed, running and interrupted. An attempt
--     without an end is running while a living writer holds it, else interrupted. A
--     task that was never registered makes its attempts ungraded.
with attempts as (
    select
        stream_id,
        trial_id,
        attempt,
        task_digest
    from stg_trials_started
),

results as (
    select
        stream_id,
        checkpoint_id,
        count(*) as n_results
    from stg_checkpoints_scored
    where is_primary
    group by stream_id, checkpoint_id
),

graded as (
    select
        attempts.stream_id,
        bool_and(coalesce(results.n_results, 0) = 1) as has_every_checkpoint
    from attempts
    inner join int_task_checkpoints
        on attempts.task_digest = int_task_checkpoints.task_digest
    left join results
        on
            attempts.stream_id = results.stream_id
            and int_task_checkpoints.checkpoint_id = results.checkpoint_id
    group by attempts.stream_id
),

ended as (
    select
        attempts.stream_id,
        attempts.trial_id,
        attempts.attempt,
        finished.stream_id is not null as is_finished,
        failed.stream_id is not null as is_failed,
        live_streams.stream_id is not null as is_live,
        int_tasks.task_digest is not null
        and coalesce(graded.has_every_checkpoint, true) as is_graded,
        coalesce(finished.duration_ms, failed.duration_ms) as duration_ms
    from attempts
    left join stg_trials_finished as finished
        on attempts.stream_id = finished.stream_id
    left join stg_trials_failed as failed
        on attempts.stream_id = failed.stream_id
    left join live_streams
        on attempts.stream_id = live_streams.stream_id
    left join int_tasks
        on attempts.task_digest = int_tasks.task_digest
    left join graded
        on attempts.stream_id = graded.stream_id
)

select
    stream_id,
    trial_id,
    attempt,
    case
        when is_finished and is_graded then 'valid'
        when is_finished then 'ungraded'
        when is_failed then 'failed'
        when is_live then 'running'
        else 'interrupted'
    end as attempt_state,
    duration_ms
from ended
