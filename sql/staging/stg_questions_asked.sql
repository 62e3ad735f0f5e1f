-- view: stg_questions_asked
-- grain: stream_id, question_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   question_id varchar: id of the question in its stream
--   question varchar: the question
--   context varchar: context given with the question
--   call_id varchar: id of the call in its stream
--   action_index
--   medium varchar: mcp, built_in, elicitation or prose
-- equation: none; renames the fields of one event type; older events mean mcp
-- source: recorder/events, event question_asked
-- notes: one row is one question, through whatever medium.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    question_asked.question_id,
    question_asked.question,
    question_asked.context,
    question_asked.call_id,
    question_asked.action_index,
    coalesce(question_asked.medium, 'mcp') as medium
from events
where type = 'question_asked'
