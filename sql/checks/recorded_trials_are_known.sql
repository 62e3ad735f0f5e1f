-- view: recorded_trials_are_known
-- grain: stream_id
-- inputs: int_attempts, int_calls_summed, int_question_targets, int_tool_times
-- outputs:
--   stream_id
--   unknown varchar[]: names of the unknown values
-- equation: keys, outcome, times of replies and of actions, and revealed segments may
--     be unknown only in imported attempts
-- source: docs/imports.md: a value that the source lacks is null; docs/log-format.md
-- notes: returns the attempts that break the rule. The outcome is checked for finished
--     attempts, and the revealed segments for attempts that count. Tokens may be
--     unknown in all attempts, because a server may report none, and a request may have
--     no end.
with calls as (
    select
        stream_id,
        bool_or(model_seconds is null) as has_unknown
    from int_calls_summed
    group by stream_id
),

answers as (
    select distinct stream_id
    from int_question_targets
    where segment_id is null
),

examined as (
    select
        attempts.stream_id,
        [
            case when not attempts.has_every_key then 'keys' end,
            case
                when
                    attempts.attempt_state in ('valid', 'ungraded')
                    and (
                        attempts.ended_by is null
                        or attempts.duration_ms is null
                        or attempts.recorded_action_count is null
                    )
                    then 'end'
            end,
            case when calls.has_unknown then 'reply times' end,
            case
                when tools.stream_id is not null and tools.tool_seconds is null
                    then 'action times'
            end,
            case when answers.stream_id is not null then 'revealed segments' end
        ] as marks
    from int_attempts as attempts
    left join calls on attempts.stream_id = calls.stream_id
    left join int_tool_times as tools on attempts.stream_id = tools.stream_id
    left join answers on attempts.stream_id = answers.stream_id
    where not attempts.is_imported
)

select
    stream_id,
    list_filter(marks, lambda mark: mark is not null) as unknown
from examined
where len(list_filter(marks, lambda mark: mark is not null)) > 0
