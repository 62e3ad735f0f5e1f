-- view: fidelity
-- grain: benchmark, agent, condition, measure
-- inputs: int_group_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
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
-- equation: means of pass@k over outcome-critical variants; gain = value(ask_user) -
--     value(underspecified), paired; gain per question as in overall
-- source: docs/metrics.md 3 and 6 [LHAW table 12]
-- notes: outcome-critical by the assigned class. Units are (variant, agent); the full
--     value of a variant is that of its task, or its own under oracle scope variant.
--     Without the information such a variant should fail: the value under
--     underspecified says how far that holds for this agent.
select
    benchmark,
    agent,
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
where table_name = 'fidelity'
