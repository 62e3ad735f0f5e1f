-- view: int_injection_gains
-- grain: benchmark, agent, variant_id, condition
-- inputs: ambiguity_classes, int_voi_units
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   inject_percent bigint: p of inject_p
--   variant_digest varchar: digest of the variant
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   cluster_index bigint: number of the cluster in its set, from 0
--   cell_id varchar: names the cell of trials behind a value
--   unit_id varchar: names the (variant, agent)
--   unit_value double: value of the unit
--   underspecified_value double: the same under underspecified
--   gain double: value minus that of underspecified
--   reason varchar: why something is null
--   is_binary boolean: n = k, so pass@k is 0 or 1
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   n_baseline_trials bigint: valid trials under underspecified
--   n_baseline_missing bigint: missing trials under underspecified
-- equation: gain = pass@k(condition) - pass@k(underspecified)
-- source: docs/metrics.md 4; parameter `voi_cases`
-- notes: the units of voi under full and the five injections, with the value of the
--     information at that time; under full that of having it from the start. reason is
--     that of a null gain.
with baselines as (
    select
        benchmark,
        agent,
        variant_id,
        unit_value,
        reason,
        n_trials,
        n_missing
    from int_voi_units
    where condition = 'underspecified'
)

select
    units.benchmark,
    units.agent,
    units.variant_id,
    units.condition,
    try_cast(replace(units.condition, 'inject_', '') as bigint) as inject_percent,
    units.variant_digest,
    ambiguity_classes.ambiguity_class,
    units.cluster_index,
    units.cell_id,
    concat_ws('|', units.benchmark, units.agent, units.variant_id) as unit_id,
    units.unit_value,
    baselines.unit_value as underspecified_value,
    units.unit_value - baselines.unit_value as gain,
    coalesce(units.reason, baselines.reason) as reason,
    units.is_binary,
    units.n_trials,
    units.n_missing,
    baselines.n_trials as n_baseline_trials,
    baselines.n_missing as n_baseline_missing
from int_voi_units as units
inner join baselines
    on
        units.benchmark = baselines.benchmark
        and units.agent = baselines.agent
        and units.variant_id = baselines.variant_id
left join ambiguity_classes
    on units.variant_digest = ambiguity_classes.variant_digest
where units.condition <> 'underspecified'
