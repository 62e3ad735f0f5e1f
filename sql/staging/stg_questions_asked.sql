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
--   medium varchar: mcp, built_in, elicitation, command or prose
--   header varchar: header of the question; empty without one
--   options struct[]: label, description, and ids of the removed segments whose values
--       the option says (holds); empty without options
--   recommended varchar: label of the option that the agent recommends, or null
--   batch_id varchar: id that the questions of one call share; null for a single
--       question
-- equation: none; renames the fields of one event type; older events count as mcp
-- source: recorder/events, event question_asked
-- notes: one row is one question, in any medium.
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
    coalesce(question_asked.medium, 'mcp') as medium,
    coalesce(question_asked.header, '') as header,
    coalesce(question_asked.options, []) as options,
    question_asked.recommended,
    question_asked.batch_id
from events
where type = 'question_asked'
