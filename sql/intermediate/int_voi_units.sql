-- view: int_voi_units
-- grain: benchmark, agent, variant_id, condition, measure
-- inputs: int_cells, int_injections
-- outputs:
--   benchmark, agent, variant_id, condition
--   measure varchar: pass_at_1, checkpoint_progress or pass_at_k
--   inject_percent bigint: null unless injected condition
--   task_id, variant_digest, ambiguity_class, cluster_id, cell_id
--   unit_id varchar: id of the (variant, agent)
--   unit_value, reason, n_trials, n_missing, n_not_injected
--   is_collapsed boolean: another percentage gives the same action
--   underspecified_value double: value under underspecified
--   gain double: value minus the value under underspecified
--   gain_reason varchar: why the gain is null
--   n_baseline_trials bigint: valid trials under underspecified
--   n_baseline_missing bigint: missing trials under underspecified
-- equation: complete = the measure is defined for full and for all injections of the
--     benchmark; gain = value(condition) - value(underspecified)
-- source: docs/metrics.md 4, VOI curve; parameter `voi_cases`
-- notes: the units with at least one injected trial, each under full, underspecified
--     and all injections that the benchmark has. Values that are left out are null:
--     incomplete_unit (complete case), not_run, or their own reason. The gain is the
--     value of the information at that time. Under full, it is the value of the
--     information from the start.
with cells as (
    select
        *,
        unnest(levels) as level
    from int_cells
    where unit_kind = 'variant'
),

pass_values as (
    select
        benchmark,
        agent,
        unit_id as variant_id,
        condition,
        level.name as measure,
        task_id,
        variant_digest,
        ambiguity_class,
        cluster_id,
        level.number as unit_value,
        level.reason,
        cell_id,
        n_trials,
        n_missing,
        n_not_injected
    from cells
    where level.name <> 'pass_hat_k'
),

injections as (
    select
        benchmark,
        list(distinct condition) as conditions
    from pass_values
    where condition like 'inject%'
    group by benchmark
),

units as (
    select
        benchmark,
        agent,
        variant_id,
        measure,
        any_value(task_id) as task_id,
        any_value(variant_digest) as variant_digest,
        any_value(ambiguity_class) as ambiguity_class,
        any_value(cluster_id) as cluster_id,
        count(unit_value) filter (
            where condition = 'full' or condition like 'inject%'
        ) as n_defined
    from pass_values
    group by benchmark, agent, variant_id, measure
    having bool_or(condition like 'inject%')
),

grid as (
    select
        units.*,
        units.n_defined = 1 + len(injections.conditions)
        or getvariable('voi_cases') = 'available' as is_taken,
        unnest(
            list_concat(['full', 'underspecified'], injections.conditions)
        ) as condition
    from units
    inner join injections on units.benchmark = injections.benchmark
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
),

valued as (
    select
        grid.benchmark,
        grid.agent,
        grid.variant_id,
        grid.condition,
        grid.measure,
        grid.task_id,
        grid.variant_digest,
        grid.ambiguity_class,
        grid.cluster_id,
        coalesce(
            pass_values.cell_id,
            concat_ws('|', grid.benchmark, grid.agent, grid.variant_id, grid.condition)
        ) as cell_id,
        case when grid.is_taken then pass_values.unit_value end as unit_value,
        case
            when pass_values.cell_id is null then 'not_run'
            when pass_values.unit_value is null then pass_values.reason
            when not grid.is_taken then 'incomplete_unit'
        end as reason,
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
            and grid.measure = pass_values.measure
    left join collapsed
        on
            grid.benchmark = collapsed.benchmark
            and grid.agent = collapsed.agent
            and grid.variant_id = collapsed.variant_id
            and grid.condition = collapsed.condition
),

baselines as (
    select
        benchmark,
        agent,
        variant_id,
        measure,
        unit_value,
        reason,
        n_trials,
        n_missing
    from valued
    where condition = 'underspecified'
)

select
    valued.benchmark,
    valued.agent,
    valued.variant_id,
    valued.condition,
    valued.measure,
    try_cast(replace(valued.condition, 'inject_', '') as bigint) as inject_percent,
    valued.task_id,
    valued.variant_digest,
    valued.ambiguity_class,
    valued.cluster_id,
    valued.cell_id,
    concat_ws('|', valued.benchmark, valued.agent, valued.variant_id) as unit_id,
    valued.unit_value,
    valued.reason,
    valued.n_trials,
    valued.n_missing,
    valued.n_not_injected,
    valued.is_collapsed,
    baselines.unit_value as underspecified_value,
    valued.unit_value - baselines.unit_value as gain,
    coalesce(valued.reason, baselines.reason) as gain_reason,
    baselines.n_trials as n_baseline_trials,
    baselines.n_missing as n_baseline_missing
from valued
inner join baselines
    on
        valued.benchmark = baselines.benchmark
        and valued.agent = baselines.agent
        and valued.variant_id = baselines.variant_id
        and valued.measure = baselines.measure
