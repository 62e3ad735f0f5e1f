-- view: int_voi_units
-- grain: benchmark, agent, variant_id, condition
-- inputs: int_injections, int_variant_values
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   variant_digest varchar: digest of the variant
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
--   cell_id varchar: names the cell of trials behind a value
--   unit_value double: value of the unit
--   reason varchar: why something is null
--   is_binary boolean: n = k, so pass@k is 0 or 1
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   n_not_injected bigint: valid trials left out: ended before the injection
--   is_collapsed boolean: another percentage gives the same action
-- equation: complete = pass@k is defined for full and for all five injections
-- source: docs/metrics.md 4, VOI curve; parameter `voi_cases`
-- notes: every unit that has any injected trial, under all seven conditions. A value
--     that is left out is null: incomplete_unit (complete case), not_run, or its own
--     reason.
with pass_values as (
    select
        benchmark,
        agent,
        variant_id,
        condition,
        variant_digest,
        cluster_index,
        cluster_count,
        unit_value,
        reason,
        is_binary,
        cell_id,
        n_trials,
        n_missing,
        n_not_injected
    from int_variant_values
    where measure = 'pass_at_k'
),

units as (
    select
        benchmark,
        agent,
        variant_id,
        any_value(variant_digest) as variant_digest,
        any_value(cluster_index) as cluster_index,
        any_value(cluster_count) as cluster_count,
        count(unit_value) filter (
            where condition = 'full' or condition like 'inject%'
        ) = 6 as is_complete
    from pass_values
    group by benchmark, agent, variant_id
    having bool_or(condition like 'inject%')
),

grid as (
    select
        benchmark,
        agent,
        variant_id,
        variant_digest,
        cluster_index,
        cluster_count,
        is_complete or getvariable('voi_cases') = 'available' as is_taken,
        unnest(
            [
                'full',
                'inject_10',
                'inject_30',
                'inject_50',
                'inject_70',
                'inject_90',
                'underspecified'
            ]
        ) as condition
    from units
),

collapsed as (
    select
        benchmark,
        agent,
        variant_id,
        condition,
        bool_or(is_collapsed) as is_collapsed
    from int_injections
    group by benchmark, agent, variant_id, condition
)

select
    grid.benchmark,
    grid.agent,
    grid.variant_id,
    grid.condition,
    grid.variant_digest,
    grid.cluster_index,
    grid.cluster_count,
    coalesce(pass_values.cell_id, concat_ws('|', grid.benchmark, grid.variant_id))
        as cell_id,
    case when grid.is_taken then pass_values.unit_value end as unit_value,
    case
        when pass_values.cell_id is null then 'not_run'
        when pass_values.unit_value is null then pass_values.reason
        when not grid.is_taken then 'incomplete_unit'
    end as reason,
    pass_values.is_binary,
    coalesce(pass_values.n_trials, 0) as n_trials,
    coalesce(pass_values.n_missing, 0) as n_missing,
    coalesce(pass_values.n_not_injected, 0) as n_not_injected,
    coalesce(collapsed.is_collapsed, false) as is_collapsed
from grid
left join pass_values
    on
        grid.benchmark = pass_values.benchmark
        and grid.agent = pass_values.agent
        and grid.variant_id = pass_values.variant_id
        and grid.condition = pass_values.condition
left join collapsed
    on
        grid.benchmark = collapsed.benchmark
        and grid.agent = collapsed.agent
        and grid.variant_id = collapsed.variant_id
        and grid.condition = collapsed.condition
