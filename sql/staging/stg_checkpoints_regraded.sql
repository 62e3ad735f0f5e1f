-- view: stg_checkpoints_regraded
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, recorded_at_us
--   graded_stream_id varchar: the attempt that was graded
--   checkpoint_id varchar: id of the checkpoint
--   label varchar: description
--   score double: points reached
--   total double: points that can be reached
--   details varchar: what the grader saw
--   grader varchar: who graded
--   grading_id varchar: id of the grading
-- equation: none; renames the fields of one event type
-- source: recorder/events, event checkpoint_scored
-- notes: one row is one result of a later grading. This view is separate from
--     stg_checkpoints_scored, because stores of older versions lack the field of the
--     graded attempt, and their tables should not become slower.
select
    stream_id,
    sequence,
    recorded_at_us,
    coalesce(checkpoint_scored.graded_stream_id, stream_id) as graded_stream_id,
    checkpoint_scored.checkpoint_id,
    checkpoint_scored.label,
    checkpoint_scored.score,
    checkpoint_scored.total,
    checkpoint_scored.details,
    checkpoint_scored.grader,
    checkpoint_scored.grading_id
from events
where type = 'checkpoint_scored' and not checkpoint_scored.is_primary
