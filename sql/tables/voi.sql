-- view: voi
-- grain: benchmark, dimension, agent, condition
-- inputs: int_variant_dimensions, int_voi_units
-- outputs:
--   benchmark varchar: name of the benchmark
--   dimension varchar: goal, constraint, input or context
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
--   has_oracle_gap boolean: full exceeds underspecified over the units with both
--   method varchar: wilson, percentile or bca
--   reason varchar: why something is null
-- equation: mean pass@k over (variant, agent) units
-- source: docs/metrics.md 4 and 6 [Ask Early table 4]; parameters `per`, `voi_cases`,
--     `intention_to_treat`
-- notes: agent all pools the units of every agent. n_collapsed counts units where
--     another percentage gives the same action; has_oracle_gap is false where full does
--     not exceed underspecified over the units that have both: timing tells nothing
--     there.
with attributed as (
    select
        units.benchmark,
        dimensions.dimension,
        unnest([units.agent, 'all']) as agent,
        units.condition,
        concat_ws('|', units.agent, units.variant_id) as pair_id,
        concat_ws('|', units.agent, units.variant_id, dimensions.position) as unit_id,
        units.cell_id,
        units.unit_value,
        units.reason,
        units.is_binary,
        units.cluster_index,
        units.cluster_count,
        units.n_trials,
        units.n_missing,
        units.n_not_injected,
        units.is_collapsed
    from int_voi_units as units
    inner join int_variant_dimensions as dimensions
        on units.variant_digest = dimensions.variant_digest
),

oracle_gaps as (
    select
        benchmark,
        dimension,
        agent,
        unit_id,
        any_value(unit_value) filter (where condition = 'full')
        - any_value(unit_value) filter (where condition = 'underspecified')
            as gap
    from attributed
    group by benchmark, dimension, agent, unit_id
),

gap_flags as (
    select
        benchmark,
        dimension,
        agent,
        round(avg(gap), 6) > 0 as has_oracle_gap
    from oracle_gaps
    group by benchmark, dimension, agent
),

estimated as (
    select
        benchmark,
        dimension,
        agent,
        condition,
        mean_estimate(
            unit_value, reason, cluster_index, cluster_count, is_binary
        ) as estimate,
        sum_once(cell_id, case when unit_value is not null then n_trials end)
            as n_trials,
        sum_once(cell_id, n_missing) as n_missing,
        sum_once(cell_id, n_not_injected) as n_not_injected,
        count(distinct pair_id) filter (
            where is_collapsed and unit_value is not null
        ) as n_collapsed
    from attributed
    group by benchmark, dimension, agent, condition
)

select
    estimated.benchmark,
    estimated.dimension,
    estimated.agent,
    estimated.condition,
    'pass_at_k' as measure,
    estimated.estimate.value,
    estimated.estimate.low,
    estimated.estimate.high,
    estimated.estimate.n_units,
    estimated.estimate.n_dropped,
    estimated.n_trials,
    estimated.n_missing,
    estimated.n_not_injected,
    estimated.n_collapsed,
    gap_flags.has_oracle_gap,
    estimated.estimate.method,
    estimated.estimate.reason
from estimated
inner join gap_flags
    on
        estimated.benchmark = gap_flags.benchmark
        and estimated.dimension = gap_flags.dimension
        and estimated.agent = gap_flags.agent
