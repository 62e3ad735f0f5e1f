-- view: wasted
-- grain: benchmark, agent, condition, measure
-- inputs: int_wasted_units
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
--   n_not_injected bigint: valid trials left out: ended before the injection
--   n_collapsed bigint: units with a value whose condition is collapsed
--   method varchar: wilson, percentile or bca
--   reason varchar: why something is null
-- equation: wasted_pct = 100 * wasted / pre-injection actions; the rest per trial too.
--     Per trial, mean per unit, mean over units
-- source: docs/metrics.md 4 and 6 [Ask Early table 6]; parameters `wasted_match`,
--     `wasted_supply`, `intention_to_treat`
-- notes: agent all pools the (variant, agent) units of every agent. n_collapsed counts
--     units where another percentage gives the same action.
with pooled as (
    select
        benchmark,
        unnest([agent, 'all']) as agent,
        condition,
        measure,
        concat_ws('|', agent, variant_id) as unit_id,
        unit_value,
        reason,
        cluster_index,
        cluster_count,
        n_trials,
        n_missing,
        n_not_injected,
        is_collapsed
    from int_wasted_units
),

estimated as (
    select
        benchmark,
        agent,
        condition,
        measure,
        mean_estimate(
            unit_value, reason, cluster_index, cluster_count, false
        ) as estimate,
        coalesce(
            sum(n_trials) filter (where unit_value is not null), 0
        )::bigint as n_trials,
        sum(n_missing)::bigint as n_missing,
        sum(n_not_injected)::bigint as n_not_injected,
        count(*) filter (where is_collapsed and unit_value is not null)
            as n_collapsed
    from pooled
    group by benchmark, agent, condition, measure
)

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
    n_not_injected,
    n_collapsed,
    estimate.method,
    estimate.reason
from estimated
