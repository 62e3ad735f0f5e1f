-- view: actions_finish
-- grain: stream_id, action_index
-- inputs: int_action_counts, int_attempts, int_tool_times, stg_actions_finished,
--     stg_actions_started
-- outputs:
--   stream_id, action_index
--   n_starts bigint: starts
--   n_finishes bigint: finishes
-- equation: in a finished attempt every started action has one finish, and every finish
--     has one start
-- source: docs/log-format.md: a long call is two events; a crash leaves the first
--     without the second
-- notes: returns the actions that break the rule. Only attempts whose starts and
--     finishes have different digests are examined.
with suspects as (
    select coalesce(starts.stream_id, finishes.stream_id) as stream_id
    from int_action_counts as starts
    full outer join int_tool_times as finishes
        on starts.stream_id = finishes.stream_id
    where starts.index_digest is distinct from finishes.index_digest
),

marked as (
    select
        stream_id,
        action_index,
        1 as n_starts,
        0 as n_finishes
    from stg_actions_started
    where stream_id in (select suspects.stream_id from suspects)
    union all
    select
        stream_id,
        action_index,
        0 as n_starts,
        1 as n_finishes
    from stg_actions_finished
    where stream_id in (select suspects.stream_id from suspects)
),

paired as (
    select
        stream_id,
        action_index,
        sum(n_starts)::bigint as n_starts,
        sum(n_finishes)::bigint as n_finishes
    from marked
    group by stream_id, action_index
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
