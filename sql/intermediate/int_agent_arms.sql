-- view: int_agent_arms
-- grain: benchmark, agent
-- inputs: int_attempt_arms, int_attempts, int_trials_evaluated, stg_questions_asked,
--     stg_trials_started
-- outputs:
--   benchmark, agent, model, strategy, persona
--   has_strategies boolean: at least one of the agents that differ only in strategy has
--       a strategy
--   has_personas boolean: at least one of the agents that differ only in persona has a
--       persona
--   base_agent varchar: the agent that differs only in having no persona; the agent
--       itself if it has none
--   base_reason varchar: why there is no base agent
--   medium varchar: how it asks if it may: built_in, mcp, prose or none; for imports
--       the medium of its questions, or unknown
-- equation: none
-- source: docs/metrics.md 3, by_strategy and by_persona
-- notes: agents can be compared if they have the same model, parameters (except the
--     seed), medium, limits and grader. A comparison of personas also needs the same
--     strategy, and a comparison of strategies the same persona. Names do not matter.
--     The base agent of an agent with a persona has the same model, parameters and
--     strategy, and no persona. base_reason says that there is none (no_base_agent) or
--     more than one (several_base_agents). Unknown parameters are equal to no other
--     parameters, and an unknown strategy or persona is equal to no known one. Model,
--     parameters and medium are read from one attempt, because the agent's digest
--     covers them. Attempts from before media were recorded count as mcp.
with attempts as (
    select
        attempts.benchmark,
        arms.agent,
        arms.core_settings,
        min(attempts.stream_id) as stream_id
    from int_attempt_arms as arms
    inner join int_attempts as attempts
        on arms.stream_id = attempts.stream_id
    group by attempts.benchmark, arms.agent, arms.core_settings
),

met as (
    select distinct
        benchmark,
        agent
    from int_trials_evaluated
),

asked as (
    select
        used.benchmark,
        used.agent,
        min(questions.medium) as medium
    from stg_questions_asked as questions
    inner join int_trials_evaluated as used
        on questions.stream_id = used.stream_id
    group by used.benchmark, used.agent
),

described as (
    select
        met.benchmark,
        met.agent,
        started.model,
        started.strategy,
        started.persona,
        attempts.core_settings,
        coalesce(
            started.asks_by,
            asked.medium,
            if(started.origin = 'recorded', 'mcp', 'unknown')
        ) as medium,
        case
            when started.parameters_json is null then met.agent
            else json_merge_patch(started.parameters_json, '{"seed": null}')::varchar
        end as parameters_json
    from met
    inner join attempts
        on met.benchmark = attempts.benchmark and met.agent = attempts.agent
    inner join stg_trials_started as started
        on attempts.stream_id = started.stream_id
    left join asked
        on met.benchmark = asked.benchmark and met.agent = asked.agent
),

compared as (
    select
        benchmark,
        agent,
        model,
        strategy,
        persona,
        medium,
        bool_or(strategy not in ('none', 'unknown'))
            over same_but_strategy as has_strategies,
        bool_or(persona not in ('none', 'unknown'))
            over same_but_persona as has_personas,
        count(*) filter (where persona = 'none') over same_but_persona as n_bases,
        min(agent) filter (where persona = 'none') over same_but_persona as any_base
    from described
    window
        same_but_strategy as (
            partition by
                benchmark, model, parameters_json, core_settings, persona, medium
        ),
        same_but_persona as (
            partition by
                benchmark, model, parameters_json, core_settings, strategy, medium
        )
)

select
    benchmark,
    agent,
    model,
    strategy,
    persona,
    has_strategies,
    has_personas,
    case
        when persona = 'none' then agent
        when n_bases = 1 then any_base
    end as base_agent,
    case
        when persona = 'none' or n_bases = 1 then null
        when n_bases = 0 then 'no_base_agent'
        else 'several_base_agents'
    end as base_reason,
    medium
from compared
