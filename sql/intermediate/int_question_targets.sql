-- view: int_question_targets
-- grain: stream_id, question_id, segment_id
-- inputs: int_attempts, int_questions_placed, stg_questions_answered
-- outputs:
--   stream_id
--   question_id varchar: id of the question in its stream
--   segment_id varchar: id of the segment
--   sequence bigint: number of the question in its stream, from 0
--   action_index
--   is_requested boolean: revealed on request, else volunteered
-- equation: none
-- source: docs/metrics.md 3, question quality
-- notes: every segment that an answer revealed, in the attempts that count. A segment
--     that one answer names twice counts once, as requested if either mention was. An
--     answer for which it is unknown what it revealed has one row without a segment.
with revealed as (
    select
        answered.stream_id,
        answered.question_id,
        unnest(coalesce(answered.revealed, [null])) as segment
    from stg_questions_answered as answered
    inner join int_attempts as attempts
        on answered.stream_id = attempts.stream_id and attempts.is_counted
)

select
    revealed.stream_id,
    revealed.question_id,
    revealed.segment.segment_id,
    any_value(placed.sequence) as sequence,
    any_value(placed.action_index) as action_index,
    bool_or(revealed.segment.is_requested) as is_requested
from revealed
inner join int_questions_placed as placed
    on
        revealed.stream_id = placed.stream_id
        and revealed.question_id = placed.question_id
group by revealed.stream_id, revealed.question_id, revealed.segment.segment_id
