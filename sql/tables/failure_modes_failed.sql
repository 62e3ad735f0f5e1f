-- view: failure_modes_failed
-- grain: benchmark, agent, category, measure
-- inputs: int_failure_mode_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   category varchar: failure mode, one of seven
--   measure varchar: any_flag, or one of the three flags of the category
--   value double: the mean, ratio or count
--   low double: lower bound
--   high double: upper bound
--   n_units bigint: units with a value
--   n_dropped bigint: units without a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   method varchar: wilson, percentile or bca
--   reason varchar: why something is null
-- equation: that of int_failure_mode_estimates, over trials with questions and without
--     success
-- source: docs/metrics.md 3 and 6, failure modes [LHAW table 17]
-- notes: only trials without success. units are trials; question_flags says which flags
--     are computed and which are judged. A trial without a judge's verdict counts in
--     n_dropped (unjudged). A flag that does not apply counts as not raised. n_missing
--     counts all trials of ask_user, with questions or not.
select
    benchmark,
    agent,
    category,
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
from int_failure_mode_estimates
where table_name = 'failure_modes_failed'
