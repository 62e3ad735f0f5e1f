-- view: answers_have_questions
-- grain: stream_id, question_id
-- inputs: int_attempts, int_questions_placed, stg_questions_answered
-- outputs:
--   stream_id
--   question_id varchar: id of the question in its stream
--   is_asked boolean: has a question
--   is_answered boolean: has an answer
-- equation: every answer has a question; in a finished attempt every question has an
--     answer, unless time ran out while the user was thinking
-- source: docs/log-format.md: a simulator error fails the trial, and no answer is
--     invented
-- notes: returns the questions and answers that break the rule.
with paired as (
    select
        coalesce(asked.stream_id, answered.stream_id) as stream_id,
        coalesce(asked.question_id, answered.question_id) as question_id,
        asked.question_id is not null as is_asked,
        answered.question_id is not null as is_answered
    from int_questions_placed as asked
    full outer join stg_questions_answered as answered
        on
            asked.stream_id = answered.stream_id
            and asked.question_id = answered.question_id
)

select
    paired.stream_id,
    paired.question_id,
    paired.is_asked,
    paired.is_answered
from paired
left join int_attempts as attempts
    on paired.stream_id = attempts.stream_id
where
    not paired.is_asked
    or (
        not paired.is_answered
        and attempts.attempt_state in ('valid', 'ungraded')
        and attempts.ended_by is distinct from 'time_limit'
    )
