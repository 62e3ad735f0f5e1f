-- view: stg_experiments_retuned
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id varchar: the daemon's stream
--   sequence, recorded_at_us
--   experiment varchar: name of the experiment
--   concurrency bigint: maximum number of parallel trials from then on
--   requested_by varchar: name that the caller gave
-- equation: none; renames the fields of one event type
-- source: recorder/events, event experiment_retuned
-- notes: one row is one request.
select
    stream_id,
    sequence,
    recorded_at_us,
    experiment_retuned.experiment,
    experiment_retuned.concurrency,
    experiment_retuned.by as requested_by
from events
where type = 'experiment_retuned'
