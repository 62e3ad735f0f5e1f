-- view: int_arm_units
-- grain: benchmark, agent, variant_id, condition, measure, baseline
-- inputs: int_agent_arms, int_persona_gains, int_variant_gains, int_variant_values,
--     pass_at_k
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   baseline varchar: whose underspecified arm is meant: own, base, or any where it
--       makes no difference
--   variant_digest varchar: digest of the variant
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   numerator double: above the line
--   denominator double: below the line; 1 for a mean
--   is_binary boolean: n = k, so pass@k is 0 or 1
--   reason varchar: why something is null
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
-- equation: measure of a set of variants = sum(numerator) / sum(denominator)
-- source: docs/metrics.md 3
-- notes: every value of a variant that a table by groups of variants prints, in one
--     shape: levels, gains, gain per question, asking. Rows of baseline base stand for
--     agents with a persona only: the level of their base agent, and gains over it. The
--     trials that variants of one class share for full count with the first of them.
with met as (
    select
        *,
        row_number() over (
            partition by cell_id, measure, ambiguity_class order by variant_id
        ) = 1 as is_first
    from int_variant_values
    where
        condition in ('full', 'underspecified', 'ask_user')
        and measure <> 'pass_hat_k'
),

levels as (
    select
        benchmark,
        agent,
        variant_id,
        condition,
        measure,
        case condition when 'underspecified' then 'own' else 'any' end as baseline,
        variant_digest,
        ambiguity_class,
        unit_value as numerator,
        1.0::double as denominator,
        is_binary,
        reason,
        case when is_first then n_trials else 0 end as n_trials,
        case when is_first then n_missing else 0 end as n_missing,
        cluster_index,
        cluster_count
    from met
),

base_levels as (
    select levels.* replace (arms.agent as agent, 'base' as baseline)
    from int_agent_arms as arms
    inner join levels
        on arms.benchmark = levels.benchmark and arms.base_agent = levels.agent
    where arms.persona <> 'none' and levels.condition = 'underspecified'
),

gains as (
    select
        'own' as baseline,
        * exclude (asked_value, unasked_value)
    from int_variant_gains
    union all by name
    select
        'base' as baseline,
        *
    from int_persona_gains
),

gain_units as (
    select
        benchmark,
        agent,
        variant_id,
        baseline,
        variant_digest,
        ambiguity_class,
        n_trials,
        n_missing,
        cluster_index,
        cluster_count,
        unnest(
            [
                {
                    'measure': measure || '_gain',
                    'numerator': gain,
                    'denominator': 1.0::double,
                    'reason': reason
                },
                {
                    'measure': case measure
                        when 'pass_at_k' then 'pass_pp_per_question_per_variant'
                        else 'progress_pp_per_question_per_variant'
                    end,
                    'numerator': case
                        when n_questions is not null then 100 * gain
                    end,
                    'denominator': n_questions::double,
                    'reason': case
                        when gain is not null and n_questions is null
                            then 'unknown_actions'
                        else reason
                    end
                }
            ]
        ) as unit
    from gains
),

asking_units as (
    select
        benchmark,
        agent,
        variant_id,
        'any' as baseline,
        variant_digest,
        ambiguity_class,
        case
            when n_trials = 0 then 'no_valid_trials'
            when n_questions is null then 'unknown_actions'
        end as reason,
        n_trials,
        n_missing,
        cluster_index,
        cluster_count,
        unnest(
            [
                {
                    'measure': 'ask_pct',
                    'numerator': 100.0 * n_asking_trials,
                    'denominator': n_trials
                },
                {
                    'measure': 'ask_variant_pct',
                    'numerator': 100.0 * (n_asking_trials > 0)::integer,
                    'denominator': 1
                },
                {
                    'measure': 'questions_per_trial',
                    'numerator': n_questions,
                    'denominator': n_trials
                },
                {
                    'measure': 'questions_per_asking_trial',
                    'numerator': n_questions,
                    'denominator': n_asking_trials
                }
            ]
        ) as unit
    from pass_at_k
    where unit_kind = 'variant' and condition = 'ask_user'
),

united as (
    select
        benchmark,
        agent,
        variant_id,
        'ask_user' as condition,
        unit.measure,
        baseline,
        variant_digest,
        ambiguity_class,
        unit.numerator::double as numerator,
        unit.denominator::double as denominator,
        false as is_binary,
        unit.reason,
        n_trials,
        n_missing,
        cluster_index,
        cluster_count
    from gain_units
    union all
    select
        benchmark,
        agent,
        variant_id,
        'ask_user' as condition,
        unit.measure,
        baseline,
        variant_digest,
        ambiguity_class,
        case when n_trials > 0 then unit.numerator::double end as numerator,
        unit.denominator::double as denominator,
        false as is_binary,
        reason,
        n_trials,
        n_missing,
        cluster_index,
        cluster_count
    from asking_units
    union all
    select * from levels
    union all
    select * from base_levels
)

select
    benchmark,
    agent,
    variant_id,
    condition,
    measure,
    baseline,
    variant_digest,
    ambiguity_class,
    numerator,
    denominator,
    is_binary,
    reason,
    n_trials,
    n_missing,
    cluster_index,
    cluster_count
from united
