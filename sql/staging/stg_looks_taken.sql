-- view: stg_looks_taken
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us
--   look bigint: number of the look, from 1
--   looks bigint: planned looks
--   tasks bigint: number of tasks in the look
--   agent varchar: whose gain is tested
--   measure varchar: pass_at_1, pass_at_k or checkpoint_progress
--   p_value double: test of a gain of 0, two-sided; null with too few tasks
--   level double: nominal level of the look
--   is_shown boolean: p_value is below level
-- equation: none; renames the fields of one event type
-- source: recorder/events, event look_taken
-- notes: one row is one look of one study.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    look_taken.look,
    look_taken.looks,
    look_taken.tasks,
    look_taken.agent,
    look_taken.measure,
    look_taken.p_value,
    look_taken.level,
    look_taken.is_shown
from events
where type = 'look_taken'
