-- view: stg_runs_finished
-- grain: stream_id
-- inputs: events
-- outputs:
--   stream_id, sequence, recorded_at_us, run_id
--   outcome varchar: completed, interrupted, cost_limit, cost_unknown or failed
--   trials_finished bigint: trials that the run finished
--   trials_failed bigint: trials that the run gave up
--   trials_blocked bigint: trials that waited for full trials
--   trials_left bigint: planned trials that are still to run
--   message varchar: what ended the run, if it did not complete
-- equation: none; renames the fields of one event type
-- source: recorder/events, event run_finished
-- notes: one row is the end of one run. A killed run has no row.
select
    stream_id,
    sequence,
    recorded_at_us,
    run_finished.run_id,
    run_finished.outcome,
    run_finished.trials_finished,
    run_finished.trials_failed,
    run_finished.trials_blocked,
    run_finished.trials_left,
    run_finished.message
from events
where type = 'run_finished'
