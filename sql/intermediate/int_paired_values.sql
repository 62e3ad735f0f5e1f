-- view: int_paired_values
-- grain: benchmark, agent, unit_id, condition, base_condition, measure
-- inputs: int_missing_bounds, unit_values
-- outputs:
--   benchmark, agent, unit_kind, unit_id, condition, measure, task_id, variant_digest,
--   ambiguity_class
--   severity varchar: delete, vaguify, genericize, decoy, environment or unknown
--   segments_removed bigint: removed segments of the variant; null if unknown
--   dimensions varchar[]: dimensions of the variant, as `per` counts them
--   unit_value
--   numerator double: numerator of the unit's ratio; null without a value
--   denominator double: denominator of the ratio; 1 for a mean
--   reason, cell_id, n_trials, n_missing, n_not_injected
--   n_questions bigint: questions of these trials; null if unknown
--   cluster_id
--   base_condition varchar: full or underspecified
--   base_kind varchar: task or variant
--   base_id varchar: task or variant id of the base value
--   has_base boolean: the base condition has a row
--   base_numerator double: numerator under the base condition
--   least double: the numerator if missing trials lowered it as far as possible
--   most double: the numerator if missing trials raised it as far as possible
--   base_least double: value of least under the base condition
--   base_most double: value of most under the base condition
--   base_cell_id varchar: id of the cell of trials behind the base value
--   n_base_trials bigint: valid trials behind the base value
--   n_base_missing bigint: missing trials behind the base value
--   pair_reason varchar: why one of the two values is null, or one_arm_only
-- equation: none
-- source: docs/metrics.md 3
-- notes: the values of variants, each beside the value under a base condition: full or
--     underspecified of the same variant, or for a control, full of its task.
with bases as (
    select
        *,
        unnest(
            case
                when condition like 'inject\_%' escape '\'
                    then ['full', 'underspecified']
                when condition not in ('full', 'full_ask_user') then ['full']
            end
        ) as base_condition,
        if(condition like 'control%', 'task', 'variant') as base_kind,
        if(condition like 'control%', task_id, unit_id) as base_id
    from unit_values
    where unit_kind = 'variant'
)

select
    bases.*,
    base.unit_id is not null as has_base,
    base.numerator as base_numerator,
    bounds.least,
    bounds.most,
    base_bounds.least as base_least,
    base_bounds.most as base_most,
    base.cell_id as base_cell_id,
    base.n_trials as n_base_trials,
    base.n_missing as n_base_missing,
    case
        when base.unit_id is null then 'one_arm_only'
        else coalesce(bases.reason, base.reason)
    end as pair_reason
from bases
left join unit_values as base
    on
        bases.benchmark = base.benchmark
        and bases.agent = base.agent
        and bases.base_kind = base.unit_kind
        and bases.base_id = base.unit_id
        and bases.base_condition = base.condition
        and bases.measure = base.measure
left join int_missing_bounds as bounds
    on
        bases.cell_id = bounds.cell_id
        and bases.measure = bounds.measure
left join int_missing_bounds as base_bounds
    on
        base.cell_id = base_bounds.cell_id
        and base.measure = base_bounds.measure
