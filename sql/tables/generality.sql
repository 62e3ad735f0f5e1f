-- view: generality
-- grain: benchmark, strategy, persona, condition, measure
-- inputs: int_group_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: all
--   strategy varchar: strategy
--   persona varchar: persona
--   n_agents bigint: agents with a value
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
-- equation: mean over agents of each agent's mean of pass@k over its units; gain
--     likewise
-- source: docs/metrics.md 3 and 6 [LHAW table 13]
-- notes: the model average, to set benchmarks side by side. Agents weigh the same
--     however many units they have; agents with a strategy or persona are averaged
--     among themselves. Units are tasks for full and variants else; n_units counts
--     (unit, agent). The bootstrap keeps the weights.
select
    benchmark,
    agent,
    group_name as strategy,
    subgroup_name as persona,
    n_agents,
    condition,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason
from int_group_estimates
where table_name = 'generality'
