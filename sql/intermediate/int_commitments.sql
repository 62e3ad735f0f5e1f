-- view: int_commitments
-- grain: benchmark, agent, variant_id, dimension, elapsed_percent
-- inputs: int_cells, int_value_uses, int_variant_dimensions
-- outputs:
--   benchmark, agent, variant_id, dimension
--   elapsed_percent bigint: completed share of the trial's actions, 0 to 100 %
--   task_id, variant_digest, cluster_id, cell_id
--   commitment double: 0 to 1
--   reason, n_trials, n_missing
-- equation: a = max(1, action_count * elapsed_percent div 100); commitment = max(0, a -
--     first use + 1) / a, and 0 at 0; mean over the full trials of the unit that use a
--     value of the dimension
-- source: docs/metrics.md 4, commitment [Ask Early section 3]
-- notes: units are (variant, agent) with measured full trials. The first use is that of
--     any removed value of the dimension. A trial that uses no removed value does not
--     show when it was committed, so it is left out. A unit is null if no trial is
--     left, or if the actions of one trial are unknown (unknown_actions).
with units as (
    select
        benchmark,
        agent,
        unit_id as variant_id,
        task_id,
        variant_digest,
        cluster_id,
        cell_id,
        n_trials,
        n_missing
    from int_cells
    where
        unit_kind = 'variant'
        and condition = 'full'
        and n_trials > 0
),

dimensions as (
    select distinct
        variant_digest,
        dimension
    from int_variant_dimensions
),

first_uses as (
    select
        agent,
        variant_digest,
        dimension,
        trial_id,
        any_value(action_count) as action_count,
        min(first_use_action) as first_use_action,
        min(reason) as reason
    from int_value_uses
    group by agent, variant_digest, dimension, trial_id
),

grid as (
    select
        agent,
        variant_digest,
        dimension,
        action_count,
        first_use_action,
        reason,
        unnest(range(0, 101, 10)) as elapsed_percent
    from first_uses
),

counted as (
    select
        *,
        greatest(1, action_count * elapsed_percent // 100) as elapsed_actions
    from grid
),

averaged as (
    select
        agent,
        variant_digest,
        dimension,
        elapsed_percent,
        bool_or(action_count is null) as has_unknown,
        avg(
            case
                when first_use_action is null then null
                when elapsed_percent = 0 then 0
                else
                    greatest(0, elapsed_actions - first_use_action + 1)
                    / elapsed_actions
            end
        ) as commitment,
        min(reason) as reason
    from counted
    group by agent, variant_digest, dimension, elapsed_percent
)

select
    units.benchmark,
    units.agent,
    units.variant_id,
    dimensions.dimension,
    averaged.elapsed_percent,
    units.task_id,
    units.variant_digest,
    units.cluster_id,
    units.cell_id,
    case when not averaged.has_unknown then averaged.commitment end as commitment,
    case
        when averaged.has_unknown then 'unknown_actions'
        when averaged.commitment is null then averaged.reason
    end as reason,
    units.n_trials,
    units.n_missing
from units
inner join dimensions
    on units.variant_digest = dimensions.variant_digest
inner join averaged
    on
        units.agent = averaged.agent
        and units.variant_digest = averaged.variant_digest
        and dimensions.dimension = averaged.dimension
