-- view: trial_notes
-- grain: stream_id, author
-- inputs: stg_trials_noted, stg_trials_started
-- outputs:
--   stream_id, trial_id, attempt
--   author varchar: who wrote the note
--   cause varchar: what the author considers responsible: agent, task, user_simulator,
--       grader or infrastructure; null if the author names nothing
--   note varchar: text of the note
--   noted_at_us bigint: UTC, microseconds since the epoch
--   experiment_id, benchmark, task_id, variant_id
--   agent_name varchar: name of the agent as given
--   agent_digest, condition, trial_index
-- equation: none
-- source: recorder/events, event trials_noted
-- notes: the last note of each author about an attempt, unless it was taken back (ties
--     by stream and sequence). No other view uses notes, so they change no number.
with latest as (
    select
        noted_stream_id as stream_id,
        author,
        cause,
        note,
        is_undone,
        recorded_at_us as noted_at_us
    from stg_trials_noted
    qualify
        row_number() over (
            partition by noted_stream_id, author
            order by recorded_at_us desc, stream_id desc, sequence desc
        ) = 1
)

select
    started.stream_id,
    started.trial_id,
    started.attempt,
    latest.author,
    latest.cause,
    latest.note,
    latest.noted_at_us,
    started.experiment_id,
    started.benchmark,
    started.task_id,
    started.variant_id,
    started.agent as agent_name,
    started.agent_digest,
    started.condition,
    started.trial_index
from latest
inner join stg_trials_started as started on latest.stream_id = started.stream_id
where not latest.is_undone
