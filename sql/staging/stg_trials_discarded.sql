-- view: stg_trials_discarded
-- grain: stream_id, sequence, discarded_stream_id
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us
--   discarded_stream_id varchar: attempt that the decision is about
--   discard_reason varchar: reason that the person gave
--   is_owed boolean: the next run attempts its trial again
--   is_undone boolean: the decision was to take the attempt back
--   is_last boolean: no later decision is about the attempt
-- equation: none; unnests and renames the fields of one event type
-- source: recorder/events, event trials_discarded
-- notes: one row is one decision about one attempt. An attempt is set aside if its last
--     decision is not undone (ties by stream and sequence).
with decided as (
    select
        stream_id,
        sequence,
        experiment_id,
        recorded_at_us,
        unnest(list_distinct(trials_discarded.stream_ids)) as discarded_stream_id,
        trials_discarded.reason as discard_reason,
        trials_discarded.is_owed,
        trials_discarded.is_undone
    from events
    where type = 'trials_discarded'
)

select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    discarded_stream_id,
    discard_reason,
    is_owed,
    is_undone,
    row_number() over (
        partition by discarded_stream_id
        order by recorded_at_us desc, stream_id desc, sequence desc
    ) = 1 as is_last
from decided
