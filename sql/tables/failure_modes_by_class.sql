-- view: failure_modes_by_class
-- grain: benchmark, ambiguity_class, agent, category, measure
-- inputs: int_failure_modes, pass_at_k
-- outputs:
--   benchmark varchar: name of the benchmark
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
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
-- equation: trials with the flag / trials with questions
-- source: docs/metrics.md 3 and 6, failure modes [LHAW figure 5]
-- notes: by the assigned class of the variant. units are trials; question_flags says
--     which flags are computed and which are judged. A trial without a judge's verdict
--     counts in n_dropped (unjudged). A flag that does not apply counts as not raised.
--     n_missing counts all trials of ask_user, with questions or not.
with estimates as (
    select
        benchmark,
        ambiguity_class,
        agent,
        category,
        measure,
        mean_estimate(
            unit_value, reason, cluster_index, cluster_count, false
        ) as estimate,
        count(unit_value) as n_trials
    from int_failure_modes
    where ambiguity_class is not null
    group by benchmark, ambiguity_class, agent, category, measure
),

missing as (
    select
        benchmark,
        ambiguity_class,
        agent,
        sum(n_missing)::bigint as n_missing
    from pass_at_k
    where
        unit_kind = 'variant'
        and condition = 'ask_user'
        and ambiguity_class is not null
    group by benchmark, ambiguity_class, agent
)

select
    estimates.benchmark,
    estimates.ambiguity_class,
    estimates.agent,
    estimates.category,
    estimates.measure,
    estimates.estimate.value,
    estimates.estimate.low,
    estimates.estimate.high,
    estimates.estimate.n_units,
    estimates.estimate.n_dropped,
    estimates.n_trials,
    missing.n_missing,
    estimates.estimate.method,
    estimates.estimate.reason
from estimates
inner join missing
    on
        estimates.benchmark = missing.benchmark
        and estimates.ambiguity_class = missing.ambiguity_class
        and estimates.agent = missing.agent
