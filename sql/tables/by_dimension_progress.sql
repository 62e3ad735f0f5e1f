-- view: by_dimension_progress
-- grain: benchmark, agent, dimension, condition, measure
-- inputs: int_dimension_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   dimension varchar: goal, constraint, input, context, or all
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   value double: the mean, ratio or count
--   low double: lower bound
--   high double: upper bound
--   n_units bigint: units with a value
--   n_dropped bigint: units without a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   method varchar: wilson, percentile or bca
--   reason varchar: why something is null
-- equation: that of int_dimension_estimates, for checkpoint_progress and its gain
-- source: docs/metrics.md 3 and 6 [LHAW table 6]; parameter `per`
-- notes: units are tasks for full and variants else.
select
    benchmark,
    agent,
    dimension,
    condition,
    measure,
    value,
    low,
    high,
    n_units,
    n_dropped,
    n_trials,
    n_missing,
    method,
    reason
from int_dimension_estimates
where measure in ('checkpoint_progress', 'checkpoint_progress_gain')
