-- view: int_group_units
-- grain: table_name, benchmark, agent, own_agent, group_name, subgroup_name, condition,
--     measure, unit_id
-- inputs: int_agent_arms, int_arm_units, int_unit_values, int_variants
-- outputs:
--   table_name varchar: table that the row is for
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   own_agent varchar: agent that did it, where agent is all
--   group_name varchar: first key of the row in its table; all
--   subgroup_name varchar: second key of the row in its table; all
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   unit_id varchar: task or variant id
--   numerator double: above the line
--   denominator double: below the line; 1 for a mean
--   is_binary boolean: n = k, so pass@k is 0 or 1
--   reason varchar: why something is null
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
-- equation: none
-- source: docs/metrics.md 3 and 6
-- notes: which values belong to which row of the tables by groups of variants, so that
--     int_group_estimates can estimate all of them at once. Groups are segments
--     removed, severity, or strategy and persona; subgroups ambiguity classes, or for
--     generality the persona. by_strategy and by_persona hold only agents that are arms
--     of a comparison; a variant without a class counts in all. In generality every
--     agent weighs the same.
with own as (
    select *
    from int_arm_units
    where baseline <> 'base'
),

full_prompts as (
    select
        benchmark,
        agent,
        condition,
        measure,
        unit_id,
        null as ambiguity_class,
        null as variant_digest,
        unit_value as numerator,
        1.0::double as denominator,
        is_binary,
        reason,
        n_trials,
        n_missing,
        cluster_index,
        cluster_count
    from int_unit_values
    where unit_kind = 'task' and condition = 'full' and measure = 'pass_at_k'
),

passes as (
    select
        * exclude (baseline, variant_id),
        variant_id as unit_id
    from own
    where condition <> 'full' and measure in ('pass_at_k', 'pass_at_k_gain')
    union all by name
    select *
    from full_prompts
),

removals as (
    select
        unnest(['by_segments_removed', 'by_severity']) as table_name,
        passes.agent as own_agent,
        unnest(
            [
                case
                    when passes.condition = 'full' then '0'
                    else nullif(len(int_variants.segments), 0)::varchar
                end,
                case
                    when passes.condition <> 'full'
                        then coalesce(int_variants.severity, 'unknown')
                end
            ]
        ) as group_name,
        'all' as subgroup_name,
        passes.*
    from passes
    left join int_variants
        on passes.variant_digest = int_variants.variant_digest
),

averages as (
    select
        'generality' as table_name,
        passes.agent as own_agent,
        arms.strategy as group_name,
        arms.persona as subgroup_name,
        passes.* replace (
            'all' as agent,
            passes.numerator / count(passes.numerator) over (
                partition by
                    passes.benchmark,
                    passes.agent,
                    passes.condition,
                    passes.measure
            ) as numerator,
            1.0::double / count(passes.numerator) over (
                partition by
                    passes.benchmark,
                    passes.agent,
                    passes.condition,
                    passes.measure
            ) as denominator,
            false as is_binary
        )
    from passes
    inner join int_agent_arms as arms
        on passes.benchmark = arms.benchmark and passes.agent = arms.agent
),

classed as (
    select
        unnest(
            [
                case
                    when
                        units.baseline <> 'base'
                        and units.ambiguity_class = 'outcome-critical'
                        and units.measure in (
                            'pass_at_k',
                            'pass_at_k_gain',
                            'pass_pp_per_question_per_variant'
                        )
                        then {
                            'table_name': 'fidelity',
                            'group_name': 'all',
                            'classes': ['all']
                        }
                end,
                case
                    when
                        arms.has_strategies
                        and units.baseline <> 'base'
                        and units.condition <> 'full'
                        and units.measure not like '%question_per_variant'
                        and units.measure <> 'questions_per_trial'
                        then {
                            'table_name': 'by_strategy',
                            'group_name': arms.strategy,
                            'classes': ['all', units.ambiguity_class]
                        }
                end,
                case
                    when
                        arms.has_personas
                        and units.baseline in (
                            'any',
                            case arms.persona when 'none' then 'own' else 'base' end
                        )
                        and units.condition <> 'full'
                        and units.measure <> 'questions_per_asking_trial'
                        then {
                            'table_name': 'by_persona',
                            'group_name': arms.persona,
                            'classes': ['all', units.ambiguity_class]
                        }
                end
            ]
        ) as member,
        units.*
    from int_arm_units as units
    inner join int_agent_arms as arms
        on units.benchmark = arms.benchmark and units.agent = arms.agent
),

placed as (
    select
        member.table_name,
        agent as own_agent,
        member.group_name,
        unnest(member.classes) as subgroup_name,
        variant_id as unit_id,
        * exclude (member, baseline, variant_id)
    from classed
    where member is not null
),

united as (
    select * from removals
    union all by name
    select * from averages
    union all by name
    select * from placed
)

select
    table_name,
    benchmark,
    agent,
    own_agent,
    group_name,
    subgroup_name,
    condition,
    measure,
    unit_id,
    numerator,
    denominator,
    is_binary,
    reason,
    n_trials,
    n_missing,
    cluster_index,
    cluster_count
from united
where group_name is not null and subgroup_name is not null
