-- view: stg_questions_answered
-- grain: stream_id, question_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   question_id varchar: id of the question in its stream
--   answer varchar: reply of the simulated user; null if unknown
--   simulator varchar: who answered
--   latency_ms double: milliseconds; null if unknown
--   revealed struct[]: segments that the answer gave; null if unknown
--   withheld varchar[]: segments asked for and not given; null if unknown
--   rejected struct[]: replies that did not pass the simulator's checks
--   response_state varchar: answered, declined, dismissed, timed_out, late or
--       unavailable
--   after_action bigint: number of actions after which a message gave the answer; null
--       without an answer, or if the result of the question gave it
--   readings struct[]: what each judge says about the exchange; null or empty in old
--       events
--   picked varchar[]: labels of the options that the user picked; empty for an answer
--       in words
--   answered_by varchar: name of the person who answered or declined; null if simulated
--   saw_values boolean: this person had the full prompt before them
-- equation: none; renames the fields of one event type; older events count as answered
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
    question_answered.revealed,
    question_answered.withheld,
    question_answered.rejected,
    coalesce(question_answered.response_state, 'answered') as response_state,
    question_answered.after_action,
    question_answered.readings,
    coalesce(question_answered.picked, []) as picked,
    question_answered.answered_by,
    question_answered.saw_values
from events
where type = 'question_answered'
