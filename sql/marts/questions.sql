-- view: questions
-- grain: stream_id, question_id
-- inputs:
-- outputs:
-- equation: timing_pct = 100 * action_index / action_count
-- source: METRICS 1, questions; METRICS 3, question quality
-- notes: every attempt; `is_counted` marks those of the attempt that counts. An answer
--     is null where the simulated user failed.
select
    placed.stream_id,
    placed.question_id,
    placed.trial_id,
    placed.attempt,
    int_trials.stream_id is not null as is_counted,
    row_number() over (
        partition by placed.stream_id order by placed.sequence
    ) as question_number,
    placed.action_index,
    100.0 * placed.action_index / nullif(int_action_counts.action_count, 0)
        as timing_pct,
    placed.question,
    placed.context,
    answered.answer,
    answered.simulator,
    list_transform(
        list_filter(answered.revealed, lambda segment: segment.is_requested),
        lambda segment: segment.segment_id
    ) as requested_segment_ids,
    list_transform(
        list_filter(answered.revealed, lambda segment: not segment.is_requested),
        lambda segment: segment.segment_id
    ) as volunteered_segment_ids
from int_questions_placed as placed
left join stg_questions_answered as answered
    on
        placed.stream_id = answered.stream_id
        and placed.question_id = answered.question_id
left join int_trials
    on placed.stream_id = int_trials.stream_id
left join int_action_counts
    on placed.stream_id = int_action_counts.stream_id
