-- view: int_control_units
-- grain: table_name, benchmark, agent, own_agent, group_name, subgroup_name, condition,
--     measure, unit_id
-- inputs: int_variants, pass_at_k
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
-- equation: pass_at_k_difference = pass@k(control, or control_ask_user) - pass@k(full)
--     of its task, paired
-- source: docs/metrics.md 3 and 6, controls (ours)
-- notes: control variants under control and control_ask_user. Without a full value of
--     its task a control has no difference (one_arm_only). n_trials are those of the
--     control; the full trials of a task are shared and not counted again.
with controls as (
    select
        units.benchmark,
        units.agent,
        units.unit_id,
        units.condition,
        units.pass_at_k,
        units.is_binary,
        units.reason,
        units.n_trials,
        units.n_missing,
        units.n_questions,
        units.n_asking_trials,
        units.cluster_index,
        units.cluster_count,
        unnest(
            [
                'all',
                case
                    when len(int_variants.segments) > 0 then 'benign-removal'
                    else 'unmodified'
                end
            ]
        ) as control_kind,
        units.pass_at_k - tasks.pass_at_k as difference,
        case
            when tasks.unit_id is null then 'one_arm_only'
            else coalesce(units.reason, tasks.reason)
        end as pair_reason,
        case
            when units.n_trials > 0 and units.n_questions is null
                then 'unknown_actions'
            else 'no_valid_trials'
        end as ask_reason
    from pass_at_k as units
    inner join int_variants
        on units.variant_digest = int_variants.variant_digest
    left join pass_at_k as tasks
        on
            units.benchmark = tasks.benchmark
            and units.agent = tasks.agent
            and units.task_id = tasks.unit_id
            and tasks.unit_kind = 'task'
            and tasks.condition = 'full'
    where
        units.unit_kind = 'variant'
        and units.condition in ('control', 'control_ask_user')
),

measured as (
    select
        *,
        unnest(
            [
                {
                    'measure': 'pass_at_k',
                    'numerator': pass_at_k,
                    'denominator': 1::double,
                    'reason': reason
                },
                {
                    'measure': 'pass_at_k_difference',
                    'numerator': difference,
                    'denominator': 1,
                    'reason': pair_reason
                },
                {
                    'measure': 'ask_pct',
                    'numerator': case when n_trials > 0 then 100 * n_asking_trials end,
                    'denominator': n_trials,
                    'reason': ask_reason
                },
                {
                    'measure': 'questions_per_trial',
                    'numerator': case when n_trials > 0 then n_questions end,
                    'denominator': n_trials,
                    'reason': ask_reason
                }
            ]
        ) as unit
    from controls
)

select
    'controls' as table_name,
    benchmark,
    agent,
    agent as own_agent,
    control_kind as group_name,
    'all' as subgroup_name,
    condition,
    unit.measure,
    unit_id,
    unit.numerator::double as numerator,
    unit.denominator::double as denominator,
    is_binary and unit.measure = 'pass_at_k' as is_binary,
    unit.reason,
    n_trials,
    n_missing,
    cluster_index,
    cluster_count
from measured
where
    condition = 'control_ask_user'
    or unit.measure in ('pass_at_k', 'pass_at_k_difference')
