-- view: answers_reveal_removed_segments
-- grain: stream_id, question_id, segment_id
-- inputs: int_attempts, int_exchange_readings, int_variant_segments
-- outputs:
--   stream_id
--   question_id varchar: id of the question in its stream
--   segment_id varchar: id of the segment
-- equation: every segment that a judge says was asked for or given is a removed segment
--     of the trial's variant
-- source: docs/metrics.md 3, question quality
-- notes: returns the answers that break the rule.
with revealed as (
    select
        stream_id,
        question_id,
        unnest(list_concat(asks_for, gives)) as segment_id
    from int_exchange_readings
)

select distinct
    revealed.stream_id,
    revealed.question_id,
    revealed.segment_id
from revealed
inner join int_attempts as started
    on revealed.stream_id = started.stream_id
left join int_variant_segments as segments
    on
        started.variant_digest = segments.variant_digest
        and revealed.segment_id = segments.segment_id
where segments.segment_id is null
