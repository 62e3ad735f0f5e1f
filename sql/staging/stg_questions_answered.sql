-- view: stg_questions_answered
-- grain: stream_id, question_id
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event question_answered
-- notes: one row is one answer of the simulated user.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    question_answered.question_id,
    question_answered.answer,
    question_answered.simulator,
    question_answered.latency_ms,
    question_answered.revealed
from events
where type = 'question_answered'
