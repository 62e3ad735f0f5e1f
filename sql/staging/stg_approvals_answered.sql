-- view: stg_approvals_answered
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   title varchar: what the agent wanted to do, in its own words
--   options varchar[]: kinds of answers that the agent offered
--   answer varchar: kind of the answer, or cancelled
--   call_id varchar: the model's tool call; null if unknown
-- equation: none; renames the fields of one event type
-- source: recorder/events, event approval_answered
-- notes: one row is one request for approval. These are not questions.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    approval_answered.title,
    approval_answered.options,
    approval_answered.answer,
    approval_answered.call_id
from events
where type = 'approval_answered'
