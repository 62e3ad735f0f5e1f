-- view: stg_questions_judged
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, recorded_at_us
--   judged_stream_id varchar: the attempt that was judged
--   judge varchar: who judged
--   prompt_digest varchar: digest of everything that decides the judge's prompt
--   flags struct[]: flag, verdict and reason
-- equation: none; renames the fields of one event type
-- source: recorder/events, event question_judged
-- notes: one row is the verdict of one judge on one attempt.
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
