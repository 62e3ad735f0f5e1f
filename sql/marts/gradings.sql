-- view: gradings
-- grain: stream_id, grading_id, checkpoint_id
-- inputs: int_attempts, stg_checkpoints_regraded, stg_checkpoints_scored
-- outputs:
--   stream_id, trial_id
--   grading_id varchar: id of the grading
--   grader varchar: who graded
--   checkpoint_id varchar: id of the checkpoint
--   label varchar: description
--   score double: points reached
--   total double: points that can be reached
--   details varchar: what the grader saw
--   primary_grader varchar: who gave the result that counts
--   primary_score double: points of the result that counts
--   difference double: score - primary_score, points
--   checkpoint_count bigint: number of results that count in the attempt
-- equation: difference = score - primary_score
-- source: docs/judging.md, grading again
-- notes: the later results, each beside the result that counts. Only grader_agreement
--     uses later results. If one grading has two results, the last one is used (ties by
--     stream and sequence). Attempts that were set aside are left out.
with latest as (
    select
        graded_stream_id,
        grading_id,
        checkpoint_id,
        arg_max(
            {
                'grader': grader,
                'label': label,
                'score': score,
                'total': total,
                'details': details
            },
            (recorded_at_us, stream_id, sequence)
        ) as result
    from stg_checkpoints_regraded
    where
        graded_stream_id in (select attempts.stream_id from int_attempts as attempts)
    group by graded_stream_id, grading_id, checkpoint_id
),

primaries as (
    select
        stream_id,
        trial_id,
        checkpoint_id,
        grader,
        score
    from stg_checkpoints_scored
    where
        is_primary
        and stream_id in (select latest.graded_stream_id from latest)
),

counted as (
    select
        stream_id,
        count(*) as checkpoint_count
    from primaries
    group by stream_id
)

select
    latest.graded_stream_id as stream_id,
    primaries.trial_id,
    latest.grading_id,
    latest.result.grader,
    latest.checkpoint_id,
    latest.result.label,
    latest.result.score,
    latest.result.total,
    latest.result.details,
    primaries.grader as primary_grader,
    primaries.score as primary_score,
    latest.result.score - primaries.score as difference,
    counted.checkpoint_count
from latest
left join primaries
    on
        latest.graded_stream_id = primaries.stream_id
        and latest.checkpoint_id = primaries.checkpoint_id
left join counted on latest.graded_stream_id = counted.stream_id
