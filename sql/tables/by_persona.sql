-- view: by_persona
-- grain: benchmark, ambiguity_class, persona, agent, condition, measure
-- inputs: int_agent_arms, unit_values
-- outputs:
--   benchmark
--   ambiguity_class varchar: outcome-critical, divergent, benign, or all
--   persona, agent, model, strategy
--   base_agent varchar: the agent whose underspecified arm is the baseline
--   condition, measure, value, low, high, n_units, n_dropped, n_clusters, n_trials,
--   n_missing, method, reason
-- equation: means over variants; gain = value(ask_user, of the agent) -
--     value(underspecified, of the agent without a persona), paired;
--     questions_per_trial = questions / trials
-- source: docs/metrics.md 3 and 6 [LHAW table 14 and figure 6]
-- notes: the agents differ only in their persona (int_agent_arms). Without personas the
--     table has no rows. The rows of underspecified are those of base_agent. If there
--     is no base agent (no_base_agent), or more than one (several_base_agents), these
--     rows are absent and gains are null. The measure questions is a count. Class all
--     includes variants without a class.
with met as (
    select
        arms.benchmark,
        arms.persona,
        arms.agent,
        arms.model,
        arms.strategy,
        arms.base_agent,
        arms.base_reason,
        units.unit_id,
        units.condition,
        units.measure,
        units.ambiguity_class,
        units.numerator,
        units.denominator,
        units.reason,
        units.cell_id,
        units.n_trials,
        units.n_missing,
        units.n_questions,
        units.cluster_id
    from int_agent_arms as arms
    inner join unit_values as units
        on
            arms.benchmark = units.benchmark
            and units.agent = case units.condition
                when 'underspecified' then arms.base_agent
                else arms.agent
            end
    where
        arms.has_personas
        and units.unit_kind = 'variant'
        and units.condition in ('underspecified', 'ask_user')
        and units.measure in (
            'pass_at_1',
            'pass_at_k',
            'checkpoint_progress',
            'ask_pct',
            'ask_variant_pct',
            'questions_per_trial'
        )
),

pairs as (
    select
        benchmark,
        persona,
        agent,
        model,
        strategy,
        base_agent,
        unit_id,
        measure,
        any_value(ambiguity_class) as ambiguity_class,
        any_value(numerator) filter (where condition = 'ask_user')
        - any_value(numerator) filter (where condition = 'underspecified') as gain,
        any_value(n_questions) filter (where condition = 'ask_user') as n_questions,
        case
            when count(base_reason) > 0 then any_value(base_reason)
            when count(*) = 1 then 'one_arm_only'
            else coalesce(
                any_value(reason) filter (where condition = 'ask_user'),
                any_value(reason) filter (where condition = 'underspecified')
            )
        end as reason,
        string_agg(cell_id, '|' order by cell_id) as cell_id,
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing,
        any_value(cluster_id) as cluster_id
    from met
    where measure in ('pass_at_1', 'pass_at_k', 'checkpoint_progress')
    group by
        benchmark, persona, agent, model, strategy, base_agent, unit_id, measure
    qualify
        bool_or(bool_or(condition = 'ask_user')) over (partition by benchmark, agent)
),

gains as (
    select
        *,
        unnest(
            case measure
                when 'pass_at_1' then ['gain']
                else ['gain', 'pp_per_question', 'pp_per_question_per_variant']
            end
        ) as gain_kind
    from pairs
),

listed as (
    select * exclude (unit_id, base_reason, n_questions) from met
    union all by name
    select
        * exclude (unit_id, gain, n_questions, gain_kind) replace (
            case
                when gain_kind = 'gain' then measure || '_gain'
                when measure = 'pass_at_k' then 'pass_' || gain_kind
                else 'progress_' || gain_kind
            end as measure,
            case
                when
                    gain_kind <> 'gain' and gain is not null and n_questions is null
                    then 'unknown_actions'
                else reason
            end as reason
        ),
        'ask_user' as condition,
        case
            when gain_kind = 'gain' then gain
            when n_questions is not null then 100 * gain
        end as numerator,
        case when gain_kind = 'gain' then 1 else n_questions end as denominator
    from gains
),

classed as (
    select
        * exclude (ambiguity_class),
        unnest(['all', ambiguity_class]) as ambiguity_class
    from listed
),

estimated as (
    select
        benchmark,
        ambiguity_class,
        persona,
        agent,
        model,
        strategy,
        base_agent,
        condition,
        measure,
        sum(numerator) as total,
        table_estimate(
            measure,
            numerator,
            denominator,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        ) as estimate
    from classed
    where ambiguity_class is not null
    group by
        benchmark,
        ambiguity_class,
        persona,
        agent,
        model,
        strategy,
        base_agent,
        condition,
        measure
)

select
    * exclude (total, estimate),
    estimate.*
from estimated
union all
select
    * exclude (total, estimate) replace ('questions' as measure),
    total as value,
    null::double as low,
    null::double as high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    estimate.n_trials,
    estimate.n_missing,
    null::varchar as method,
    case when total is null then estimate.reason else 'count' end as reason
from estimated
where measure = 'questions_per_trial'
