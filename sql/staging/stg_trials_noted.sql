-- view: stg_trials_noted
-- grain: stream_id, sequence, noted_stream_id
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us
--   noted_stream_id varchar: attempt that the note is about
--   author varchar: who wrote the note
--   cause varchar: what the author considers responsible: agent, task, user_simulator,
--       grader or infrastructure; null if the author names nothing
--   note varchar: text of the note
--   is_undone boolean: the author took the note back
-- equation: none; unnests and renames the fields of one event type
-- source: recorder/events, event trials_noted
-- notes: one row is one note about one attempt.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    unnest(list_distinct(trials_noted.stream_ids)) as noted_stream_id,
    trials_noted.author,
    trials_noted.cause,
    trials_noted.note,
    trials_noted.is_undone
from events
where type = 'trials_noted'
