-- view: stg_checkpoints_scored
-- grain: stream_id, grading_id, checkpoint_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   checkpoint_id varchar: id of the checkpoint
--   label varchar: description
--   score double: points reached
--   total double: points that can be reached
--   details varchar: what the grader saw
--   grader varchar: who graded
--   grading_id varchar: id of the grading
--   is_primary boolean: false for a re-grading
-- equation: none; renames the fields of one event type
-- source: recorder/events, event checkpoint_scored
-- notes: one row is one result of one checkpoint in one grading.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    checkpoint_scored.checkpoint_id,
    checkpoint_scored.label,
    checkpoint_scored.score,
    checkpoint_scored.total,
    checkpoint_scored.details,
    checkpoint_scored.grader,
    checkpoint_scored.grading_id,
    checkpoint_scored.is_primary
from events
where type = 'checkpoint_scored'
