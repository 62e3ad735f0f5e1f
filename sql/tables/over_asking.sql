-- view: over_asking
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
-- equation: ask_pct = 100 * trials that asked / trials; questions_per_trial = questions
--     / trials; pass_at_k_difference = pass@k(full_ask_user) - pass@k(full), paired
-- source: docs/metrics.md 3 and 6, over-asking (ours)
-- notes: units are tasks: with the full prompt nothing is missing, so every question is
--     one too many. Only agents that had full_ask_user; a task without a value in one
--     arm is dropped from the difference.
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
where table_name = 'over_asking'
