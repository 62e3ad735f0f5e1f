-- view: int_questions_placed
-- grain: stream_id, question_id
-- inputs: stg_actions_started, stg_questions_asked
-- outputs:
--   stream_id
--   question_id varchar: id of the question in its stream
--   sequence, action_index
-- equation: none
-- source: docs/metrics.md 1, questions and first-ask timing; parameter `medium`
-- notes: the action of a question is the action recorded with it, or else the action
--     with the same call id. It is null if neither is known.
with asked as (
    select
        stream_id,
        question_id,
        sequence,
        call_id,
        action_index
    from stg_questions_asked
    where
        getvariable('medium') is null
        or list_contains(string_split(getvariable('medium'), ','), medium)
),

unplaced as (
    select
        stream_id,
        call_id
    from asked
    where action_index is null and call_id is not null
),

calls as (
    select
        stream_id,
        call_id,
        min(action_index) as action_index
    from stg_actions_started
    where
        stream_id in (select unplaced.stream_id from unplaced)
        and call_id is not null
    group by stream_id, call_id
)

select
    asked.stream_id,
    asked.question_id,
    asked.sequence,
    coalesce(asked.action_index, calls.action_index) as action_index
from asked
left join calls
    on
        asked.stream_id = calls.stream_id
        and asked.call_id = calls.call_id
