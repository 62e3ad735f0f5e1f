-- view: actions_finish
-- grain: stream_id, action_index
-- inputs: int_attempts, stg_actions_finished, stg_actions_started
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   action_index bigint: number of the action in its attempt, from 1
--   n_starts bigint: starts
--   n_finishes bigint: finishes
-- equation: in a finished attempt every started action has one finish, and every finish
--     its start
-- source: docs/log-format.md: a long call is two facts; a lone first half is what a
--     crash looks like
-- notes: returns the actions that break it.
with started as (
    select
        stream_id,
        action_index,
        count(*) as n_starts
    from stg_actions_started
    group by stream_id, action_index
),

finished as (
    select
        stream_id,
        action_index,
        count(*) as n_finishes
    from stg_actions_finished
    group by stream_id, action_index
),

paired as (
    select
        coalesce(started.stream_id, finished.stream_id) as stream_id,
        coalesce(started.action_index, finished.action_index) as action_index,
        coalesce(started.n_starts, 0) as n_starts,
        coalesce(finished.n_finishes, 0) as n_finishes
    from started
    full outer join finished
        on
            started.stream_id = finished.stream_id
            and started.action_index = finished.action_index
)

select
    paired.stream_id,
    paired.action_index,
    paired.n_starts,
    paired.n_finishes
from paired
inner join int_attempts as attempts
    on paired.stream_id = attempts.stream_id
where
    paired.n_finishes > paired.n_starts
    or (
        attempts.attempt_state in ('valid', 'ungraded')
        and paired.n_starts <> paired.n_finishes
    )
