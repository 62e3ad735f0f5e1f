-- view: int_dimension_estimates
-- grain: benchmark, agent, dimension, condition, measure
-- inputs: int_unit_values, int_variant_dimensions, int_variant_gains, int_variants
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   dimension varchar: goal, constraint, input, context, or all
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
-- equation: mean over the units of a dimension; gain paired per variant
-- source: docs/metrics.md 3, by dimension; parameter `per`
-- notes: dimension all holds every variant once. For full the units are the tasks of
--     the variants in the dimension, each once.
with memberships as (
    select
        variant_digest,
        dimension,
        position
    from int_variant_dimensions
    union all
    select
        variant_digest,
        'all' as dimension,
        0 as position
    from int_variants
),

variant_levels as (
    select
        units.benchmark,
        units.agent,
        memberships.dimension,
        units.condition,
        units.measure,
        units.unit_value,
        units.reason,
        units.unit_id || '|' || memberships.position as unit_id,
        units.cell_id,
        units.cluster_index,
        units.cluster_count,
        units.is_binary,
        units.n_trials,
        units.n_missing
    from int_unit_values as units
    inner join memberships
        on units.variant_digest = memberships.variant_digest
    where
        units.unit_kind = 'variant'
        and units.condition in ('underspecified', 'ask_user')
        and units.measure <> 'pass_hat_k'
),

task_dimensions as (
    select distinct
        units.benchmark,
        units.agent,
        units.task_id,
        memberships.dimension
    from int_unit_values as units
    inner join memberships
        on units.variant_digest = memberships.variant_digest
    where units.unit_kind = 'variant'
),

task_levels as (
    select
        units.benchmark,
        units.agent,
        task_dimensions.dimension,
        units.condition,
        units.measure,
        units.unit_value,
        units.reason,
        units.unit_id,
        units.cell_id,
        units.cluster_index,
        units.cluster_count,
        units.is_binary,
        units.n_trials,
        units.n_missing
    from int_unit_values as units
    inner join task_dimensions
        on
            units.benchmark = task_dimensions.benchmark
            and units.agent = task_dimensions.agent
            and units.task_id = task_dimensions.task_id
    where
        units.unit_kind = 'task'
        and units.condition = 'full'
        and units.measure <> 'pass_hat_k'
),

variant_gains as (
    select
        gains.benchmark,
        gains.agent,
        memberships.dimension,
        'ask_user' as condition,
        gains.measure || '_gain' as measure,
        gains.gain as unit_value,
        gains.reason,
        gains.variant_id || '|' || memberships.position as unit_id,
        gains.pair_id as cell_id,
        gains.cluster_index,
        gains.cluster_count,
        false as is_binary,
        gains.n_trials,
        gains.n_missing
    from int_variant_gains as gains
    inner join memberships
        on gains.variant_digest = memberships.variant_digest
),

units as (
    select * from variant_levels
    union all
    select * from task_levels
    union all
    select * from variant_gains
),

estimated as (
    select
        benchmark,
        agent,
        dimension,
        condition,
        measure,
        mean_estimate(
            unit_value, reason, cluster_index, cluster_count, is_binary
        ) as estimate,
        sum_once(cell_id, case when unit_value is not null then n_trials end)
            as n_trials,
        sum_once(cell_id, n_missing) as n_missing
    from units
    group by benchmark, agent, dimension, condition, measure
)

select
    benchmark,
    agent,
    dimension,
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
from estimated
