-- view: int_runs_planned
-- grain: run_id
-- inputs:
-- outputs:
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
