-- view: by_segments_removed
-- grain: benchmark, segments_removed, agent, condition, measure
-- inputs: int_group_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   segments_removed bigint: segments removed from the prompt; 0 is the full prompt
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
-- equation: means over units of pass@k; gain = value(ask_user) - value(underspecified),
--     paired
-- source: docs/metrics.md 3 and 6 [LHAW table 2]
-- notes: row 0 under full: units are tasks, all of them. Other rows: units are
--     variants, but those of which the source does not name the segments.
select
    benchmark,
    group_name::bigint as segments_removed,
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
where table_name = 'by_segments_removed'
