-- view: voi
-- grain: benchmark, dimension, agent, condition, measure
-- inputs: int_pools, int_variant_dimensions, int_voi_units
-- outputs:
--   benchmark varchar: name of the benchmark; all pools several
--   dimension, agent, condition, measure, value, low, high, n_units, n_dropped,
--   n_clusters, n_trials, n_missing, n_not_injected
--   n_collapsed bigint: units with a value whose condition is collapsed
--   has_oracle_gap boolean: full exceeds underspecified over the units with both
--   band_low double: lower bound that holds for all injections of a curve at once
--   band_high double: upper bound that holds for all injections of a curve at once
--   method, reason
-- equation: for one agent, the mean of the measure over its variants; for agent all,
--     the mean over tasks of the mean over agents of the mean over an agent's variants
-- source: docs/metrics.md 4 and 6 [Ask Early table 4]; parameters `per`,
--     `voi_cases`, `intention_to_treat`, `pooled`
-- notes: the measures are pass_at_1 (the share of trials that succeed), progress, and
--     pass_at_k. With `pooled = units`, every (variant, agent) has the same weight in
--     rows of agent all. n_units counts (variant, agent), whatever `pooled` is.
--     n_collapsed counts units in which another percentage gives the same action.
--     has_oracle_gap is false if full does not exceed underspecified over the units
--     that have both, with agents pooled in the same way. Injection timing is then
--     uninformative. The band of a curve is the hull of its intervals and of a max t
--     band over the injections under joint sign flips of tasks. It is null below 6
--     tasks.
with attributed as (
    select
        int_pools.pool as benchmark,
        dimensions.dimension,
        units.agent as own_agent,
        unnest([units.agent, 'all']) as agent,
        units.condition,
        units.measure,
        concat_ws('|', units.benchmark, units.agent, units.variant_id) as pair_id,
        concat_ws(
            '|',
            units.benchmark,
            units.agent,
            units.variant_id,
            dimensions.position
        ) as unit_id,
        concat_ws('|', units.benchmark, units.task_id) as task_key,
        units.cell_id,
        units.unit_value,
        units.reason,
        units.cluster_id,
        units.n_trials,
        units.n_missing,
        units.n_not_injected,
        units.is_collapsed
    from int_voi_units as units
    inner join int_pools
        on units.benchmark = int_pools.benchmark and not int_pools.is_single
    inner join int_variant_dimensions as dimensions
        on units.variant_digest = dimensions.variant_digest
),

gaps as (
    select
        benchmark,
        dimension,
        agent,
        measure,
        unit_id,
        any_value(own_agent) as own_agent,
        any_value(task_key) as task_key,
        any_value(unit_value) filter (where condition = 'full')
        - any_value(unit_value) filter (where condition = 'underspecified')
            as gap
    from attributed
    group by benchmark, dimension, agent, measure, unit_id
),

weighted_gaps as (
    select
        *,
        agent_weight(
            agent, own_agent, task_key, gap, row(benchmark, dimension, agent, measure)
        ) as weight
    from gaps
),

gap_flags as (
    select
        benchmark,
        dimension,
        agent,
        measure,
        round(sum(weight * gap) / sum(weight), 6) > 0 as has_oracle_gap
    from weighted_gaps
    group by benchmark, dimension, agent, measure
),

weighted as (
    select
        *,
        agent_weight(
            agent,
            own_agent,
            task_key,
            unit_value,
            row(benchmark, dimension, agent, condition, measure)
        ) as weight
    from attributed
),

estimated as (
    select
        benchmark,
        dimension,
        agent,
        condition,
        measure,
        unit_estimate(
            'level', weight * unit_value, weight, min(reason), cluster_id
        ) as estimate,
        sum_once(cell_id, case when unit_value is not null then n_trials end)
            as n_trials,
        sum_once(cell_id, n_missing) as n_missing,
        sum_once(cell_id, n_not_injected) as n_not_injected,
        count(distinct pair_id) filter (
            where is_collapsed and unit_value is not null
        ) as n_collapsed
    from weighted
    group by benchmark, dimension, agent, condition, measure
),

halves as (
    select
        benchmark,
        dimension,
        agent,
        measure,
        unnest(band_half(condition, cluster_id, weight, unit_value)) as half
    from weighted
    where condition like 'inject%'
    group by benchmark, dimension, agent, measure
)

select
    estimated.benchmark,
    estimated.dimension,
    estimated.agent,
    estimated.condition,
    estimated.measure,
    estimated.estimate.value,
    estimated.estimate.low,
    estimated.estimate.high,
    estimated.estimate.n_units,
    estimated.estimate.n_dropped,
    estimated.estimate.n_clusters,
    estimated.n_trials,
    estimated.n_missing,
    estimated.n_not_injected,
    estimated.n_collapsed,
    gap_flags.has_oracle_gap,
    band_of(estimated.estimate, halves.half.number, 0, 1).low as band_low,
    band_of(estimated.estimate, halves.half.number, 0, 1).high as band_high,
    estimated.estimate.method,
    estimated.estimate.reason
from estimated
inner join gap_flags
    on
        estimated.benchmark = gap_flags.benchmark
        and estimated.dimension = gap_flags.dimension
        and estimated.agent = gap_flags.agent
        and estimated.measure = gap_flags.measure
left join halves
    on
        estimated.benchmark = halves.benchmark
        and estimated.dimension = halves.dimension
        and estimated.agent = halves.agent
        and estimated.measure = halves.measure
        and estimated.condition = 'inject_' || halves.half.member
