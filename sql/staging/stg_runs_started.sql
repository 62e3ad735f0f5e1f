-- view: stg_runs_started
-- grain: run_id
-- inputs: events
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   sequence bigint: number of the event in its stream, from 0
--   experiment_id varchar: name of the experiment
--   recorded_at_us bigint: UTC, microseconds since the epoch
--   run_id varchar: the run
--   config_json varchar: normalised experiment file
--   config_digest varchar: SHA-256 of it
--   code_version varchar: version of the code
--   planned_trials bigint: trials of the whole plan
--   finished_before bigint: trials finished before this run
-- equation: none; renames the fields of one event type
-- source: recorder/events, event run_started
-- notes: one row is one invocation of an experiment file.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    run_started.run_id,
    run_started.config_json,
    run_started.config_digest,
    run_started.code_version,
    run_started.planned_trials,
    run_started.finished_before
from events
where type = 'run_started'
