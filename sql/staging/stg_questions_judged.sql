-- view: stg_questions_judged
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   sequence bigint: number of the event in its stream, from 0
--   recorded_at_us bigint: UTC, microseconds since the epoch
--   judged_stream_id varchar: the attempt that was judged
--   judge varchar: who judged
--   prompt_digest varchar: digest of what decides the judge's prompt
--   flags struct[]: flag, verdict and reason
-- equation: none; renames the fields of one event type
-- source: recorder/events, event question_judged
-- notes: one row is what one judge said of one attempt.
select
    stream_id,
    sequence,
    recorded_at_us,
    question_judged.judged_stream_id,
    question_judged.judge,
    question_judged.prompt_digest,
    question_judged.flags
from events
where type = 'question_judged'
