-- view: looks
-- grain: experiment, look
-- inputs: int_looks
-- outputs:
--   experiment varchar: name of the experiment
--   look bigint: number of the look; 0 before the first look, and without a plan
--   n_looks bigint: planned looks; null without a plan
--   agent varchar: whose gain is tested; null without a plan
--   tested varchar: the gain that is tested; null without a plan
--   n_tasks bigint: tasks in the look; null without a look
--   p_value double: test of a gain of 0, two-sided; null with too few tasks
--   level double: nominal level of the look; 0 before the first look; null without a
--       plan
--   is_shown boolean: p_value is below level; null without a look
--   is_last boolean: no later look was taken
--   n_runs bigint: runs in which the experiment grew
-- equation: as in int_looks; level by Hwang, Shih and De Cani with gamma = -2
-- source: docs/metrics.md 5, looks
-- notes: a study has a plan if its latest experiment file has stop_when_shown, or if it
--     has looks. The level of claims is the smallest level of the studies' last looks,
--     so nothing is claimed before the first look. Without a plan, p-values are not
--     corrected for looks.
select
    experiment,
    look,
    n_looks,
    agent,
    tested,
    n_tasks,
    p_value,
    level,
    is_shown,
    is_last,
    n_runs
from int_looks
