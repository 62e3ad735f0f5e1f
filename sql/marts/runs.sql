-- view: runs
-- grain: run_id
-- inputs: live_streams, stg_runs_finished, stg_runs_started, stg_trials_started
-- outputs:
--   run_id, stream_id, experiment_id
--   kind varchar: experiment for a run of an experiment file, else the name of the
--       command
--   outcome varchar: completed, interrupted, cost_limit, cost_unknown, failed, running
--       or killed
--   message varchar: what ended the run; null without an end
--   started_at_us bigint: UTC, microseconds since the epoch
--   finished_at_us bigint: UTC, microseconds since the epoch; null without an end
--   planned_trials bigint: trials of the whole plan
--   finished_before bigint: trials finished before this run
--   attempts_started bigint: attempts that the run started
--   trials_finished bigint: trials that the run finished; null without an end
--   trials_failed bigint: trials that the run gave up; null without an end
--   trials_blocked bigint: trials that waited for full trials; null without an end
--   trials_left bigint: planned trials that are still to run; null without an end
--   config_json varchar: normalised experiment file
--   config_digest varchar: SHA-256 of config_json
--   code_version varchar: version of the code
--   packages varchar[]: name and version of each package, sorted
--   python_version varchar: version of Python
--   platform varchar: system and processor
--   cpu_count bigint: processors of the machine
-- equation: a run without run_finished is running if a live writer has the stream open,
--     else killed
-- source: docs/log-format.md, run_started and run_finished
-- notes: the invocations of experiment files, and of commands that add results to
--     finished trials.
with attempted as (
    select
        run_id,
        count(*) as attempts_started
    from stg_trials_started
    group by run_id
)

select
    runs.run_id,
    runs.stream_id,
    runs.experiment_id,
    runs.kind,
    coalesce(
        ends.outcome,
        case when live.stream_id is null then 'killed' else 'running' end
    ) as outcome,
    ends.message,
    runs.recorded_at_us as started_at_us,
    ends.recorded_at_us as finished_at_us,
    runs.planned_trials,
    runs.finished_before,
    coalesce(attempted.attempts_started, 0) as attempts_started,
    ends.trials_finished,
    ends.trials_failed,
    ends.trials_blocked,
    ends.trials_left,
    runs.config_json,
    runs.config_digest,
    runs.code_version,
    list_sort(
        list_transform(
            runs.packages, lambda package: package.name || ' ' || package.version
        )
    ) as packages,
    runs.python_version,
    runs.platform,
    runs.cpu_count
from stg_runs_started as runs
left join stg_runs_finished as ends
    on runs.stream_id = ends.stream_id
left join live_streams as live
    on runs.stream_id = live.stream_id
left join attempted
    on runs.run_id = attempted.run_id
