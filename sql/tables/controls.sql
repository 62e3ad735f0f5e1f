-- view: controls
-- grain: benchmark, control_kind, agent, condition, measure
-- inputs: int_group_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   control_kind varchar: unmodified, benign-removal, or all
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
-- equation: pass_at_k_difference = pass@k(control, or control_ask_user) - pass@k(full)
--     of its task, paired; ask_pct = 100 * trials that asked / trials;
--     questions_per_trial = questions / trials
-- source: docs/metrics.md 3 and 6, controls (ours)
-- notes: units are control variants, in which nothing that matters is missing: the
--     difference should be 0, and every question of control_ask_user is one too many.
--     What differs from that is the noise under every gain and class of this store.
select
    benchmark,
    group_name as control_kind,
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
where table_name = 'controls'
