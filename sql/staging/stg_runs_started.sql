-- view: stg_runs_started
-- grain: run_id
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us, run_id
--   kind varchar: experiment for a run of an experiment file, else the name of the
--       command
--   config_json varchar: normalised experiment file
--   sandbox_image varchar: image of the containers; null if the experiment file names
--       none
--   trials_per_cell bigint: planned trials per cell; null if the file does not say
--   config_digest varchar: SHA-256 of config_json
--   code_version varchar: version of the code
--   packages struct[]: name and version of each package
--   python_version varchar: version of Python
--   platform varchar: system and processor
--   cpu_count bigint: processors of the machine
--   planned_trials bigint: trials of the whole plan
--   finished_before bigint: trials finished before this run
--   left_out_tasks varchar[]: tasks that the plan lacks, or lacks in some conditions
-- equation: none; renames the fields of one event type
-- source: recorder/events, event run_started
-- notes: one row is one run. Earlier versions kept the command in the configuration.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    run_started.run_id,
    coalesce(
        run_started.kind,
        json_extract_string(run_started.config_json, '$.command'),
        'experiment'
    ) as kind,
    run_started.config_json,
    json_extract_string(run_started.config_json, '$.sandbox.image') as sandbox_image,
    try_cast(json_extract_string(run_started.config_json, '$.trials') as bigint)
        as trials_per_cell,
    run_started.config_digest,
    run_started.code_version,
    run_started.packages,
    run_started.python_version,
    run_started.platform,
    run_started.cpu_count,
    run_started.planned_trials,
    run_started.finished_before,
    run_started.left_out_tasks
from events
where type = 'run_started'
