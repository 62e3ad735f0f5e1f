-- view: int_experiments
-- grain: experiment_id
-- inputs: stg_runs_started
-- outputs:
--   experiment_id varchar: name of the experiment
--   run_id varchar: the run
--   planned_trials bigint: trials of the whole plan
--   finished_before bigint: trials finished before this run
--   trials_per_cell bigint: planned trials per cell; null if unknown
-- equation: none
-- source: docs/log-format.md, run_started
-- notes: an experiment's plan is that of its latest run (ties by run id); runs of a
--     command that plans no trials, as judge and grade, are passed over.
--     trials_per_cell is null where the recorded experiment file does not say.
with latest as (
    select
        experiment_id,
        arg_max(run_id, (recorded_at_us, run_id)) as run_id
    from stg_runs_started
    where json_extract_string(config_json, '$.command') is null
    group by experiment_id
)

select
    latest.experiment_id,
    latest.run_id,
    runs.planned_trials,
    runs.finished_before,
    try_cast(json_extract_string(runs.config_json, '$.trials') as bigint)
        as trials_per_cell
from latest
inner join stg_runs_started as runs
    on
        latest.experiment_id = runs.experiment_id
        and latest.run_id = runs.run_id
