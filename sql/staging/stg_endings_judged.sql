-- view: stg_endings_judged
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   action_index
--   asks varchar: question, permission, offer or none, according to the judge that
--       decides
--   verdicts struct[]: verdicts of all judges: judge and asks
--   is_capped boolean: the user had no turn left to answer with
-- equation: none; renames the fields of one event type
-- source: recorder/events, event ending_judged
-- notes: one row is one turn of an agent whose user answers questions in prose.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    ending_judged.action_index,
    ending_judged.asks,
    ending_judged.verdicts,
    coalesce(ending_judged.is_capped, false) as is_capped
from events
where type = 'ending_judged'
