-- view: int_question_targets
-- grain: stream_id, question_id, segment_id
-- inputs: int_attempts, int_exchange_readings, int_questions_placed
-- outputs:
--   stream_id
--   question_id varchar: id of the question in its stream
--   segment_id varchar: id of the segment
--   sequence bigint: number of the question in its stream, from 0
--   action_index
--   is_requested boolean: the question asks for the segment
--   is_given boolean: the answer gives the segment
-- equation: none
-- source: docs/metrics.md 3, question quality
-- notes: the segments that a question asks for or its answer gives, according to the
--     chosen judge, in the attempts that count. If these are unknown, the exchange has
--     one row without a segment.
with targets as (
    select
        judged.stream_id,
        judged.question_id,
        judged.asks_for,
        judged.gives,
        unnest(
            case
                when judged.gives is null then [null]
                else list_distinct(list_concat(judged.asks_for, judged.gives))
            end
        ) as segment_id
    from int_exchange_readings as judged
    inner join int_attempts as attempts
        on judged.stream_id = attempts.stream_id and attempts.is_counted
    where judged.is_chosen
)

select
    targets.stream_id,
    targets.question_id,
    targets.segment_id,
    placed.sequence,
    placed.action_index,
    list_contains(targets.asks_for, targets.segment_id) as is_requested,
    list_contains(targets.gives, targets.segment_id) as is_given
from targets
inner join int_questions_placed as placed
    on
        targets.stream_id = placed.stream_id
        and targets.question_id = placed.question_id
