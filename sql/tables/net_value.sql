-- view: net_value
-- grain: benchmark, agent, measure, question_cost_pp
-- inputs: int_group_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   question_cost_pp double: assumed cost of a question, percentage points; null for
--       break-even
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
-- equation: with g the gain in percentage points and q the questions per trial of the
--     ask arm of a paired variant: net value = mean(g - cost * q); break-even = mean(g)
--     / mean(q)
-- source: docs/metrics.md 3 and 6, net value (ours)
-- notes: the same paired variants as the gains of overall. A line in the cost, cut at a
--     few costs; it crosses zero at break-even, the cost per question that asking is
--     just worth: null if nobody asked (nobody_asked), negative where the gain is.
select
    benchmark,
    agent,
    try_cast(group_name as double) as question_cost_pp,
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
where table_name = 'net_value'
