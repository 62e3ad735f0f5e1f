-- view: int_runs_planned
-- grain: run_id
-- inputs: stg_runs_started
-- outputs:
--   run_id varchar: the run
--   experiment_id varchar: name of the experiment
--   recorded_at_us bigint: UTC, microseconds since the epoch
--   planned_trials bigint: trials of the whole plan
--   finished_before bigint: trials finished before this run
--   trials_per_cell bigint: planned trials per cell; null if unknown
-- equation: none
-- source: DESIGN 4, run_started
-- notes: `trials_per_cell` is null where the recorded experiment file does not say.
select
    run_id,
    experiment_id,
    recorded_at_us,
    planned_trials,
    finished_before,
    try_cast(json_extract_string(config_json, '$.trials') as bigint)
        as trials_per_cell
from stg_runs_started
