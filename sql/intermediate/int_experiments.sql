-- view: int_experiments
-- grain: experiment_id
-- inputs: stg_runs_started
-- outputs:
--   experiment_id, run_id
--   planned_trials bigint: trials of the whole plan
--   finished_before bigint: trials finished before this run
-- equation: none
-- source: docs/log-format.md, run_started
-- notes: an experiment's plan is that of its latest run (ties by run id). Runs of
--     commands that plan no trials, such as judge and grade, are skipped.
with latest as (
    select
        experiment_id,
        arg_max(run_id, (recorded_at_us, run_id)) as run_id
    from stg_runs_started
    where kind = 'experiment'
    group by experiment_id
)

select
    latest.experiment_id,
    latest.run_id,
    runs.planned_trials,
    runs.finished_before
from latest
inner join stg_runs_started as runs
    on
        latest.experiment_id = runs.experiment_id
        and latest.run_id = runs.run_id
