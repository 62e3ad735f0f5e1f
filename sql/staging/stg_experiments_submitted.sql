-- view: stg_experiments_submitted
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id varchar: the daemon's stream
--   sequence, recorded_at_us
--   experiment varchar: name of the experiment
--   config_json varchar: normalised experiment file
--   config_digest varchar: SHA-256 of config_json
--   path varchar: path of the file; relative paths start in its folder
--   requested_by varchar: name that the caller gave
-- equation: none; renames the fields of one event type
-- source: recorder/events, event experiment_submitted
-- notes: one row is one submission. If several submissions have the same name, the last
--     recorded one counts.
select
    stream_id,
    sequence,
    recorded_at_us,
    experiment_submitted.experiment,
    experiment_submitted.config_json,
    experiment_submitted.config_digest,
    experiment_submitted.path,
    experiment_submitted.by as requested_by
from events
where type = 'experiment_submitted'
