-- view: stg_runs_started
-- grain: run_id
-- inputs: events
-- outputs:
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
