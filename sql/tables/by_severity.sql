-- view: by_severity
-- grain: benchmark, severity, ambiguity_class, agent, condition, measure
-- inputs: int_candidates, int_group_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   severity varchar: delete, vaguify, genericize, decoy, environment or unknown
--   ambiguity_class varchar: outcome-critical, divergent, benign, new_task,
--       unclassified, or all
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
-- equation: pass_at_k, gain: means over variants, as in overall; candidate_pass_at_k:
--     mean over candidates of pass@k of the classifying trials; candidates: their
--     number
-- source: docs/metrics.md 2, 3 and 6 [LHAW table 11]
-- notes: candidates are all registered variants, new_task and unclassified ones
--     included (int_candidates); their pass@k is that of the classifying agent, whose
--     trials the other rows leave out. A variant without a recorded severity is
--     unknown.
with candidates as (
    select
        benchmark,
        severity,
        unnest(['all', ambiguity_class]) as ambiguity_class
    from int_candidates
)

select
    benchmark,
    severity,
    ambiguity_class,
    'all' as agent,
    'underspecified' as condition,
    'candidates' as measure,
    count(*)::double as value,
    null::double as low,
    null::double as high,
    count(*) as n_units,
    0::bigint as n_dropped,
    0::bigint as n_trials,
    0::bigint as n_missing,
    null::varchar as method,
    'count' as reason
from candidates
group by benchmark, severity, ambiguity_class
union all
select
    benchmark,
    group_name as severity,
    subgroup_name as ambiguity_class,
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
where table_name = 'by_severity'
