-- view: int_agent_arms
-- grain: benchmark, agent
-- inputs: int_agents, int_attempts_started, int_trials_evaluated, stg_trials_started
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   model varchar: model name
--   strategy varchar: strategy
--   persona varchar: persona
--   has_strategies boolean: a strategy occurs among the agents that differ in it only
--   has_personas boolean: a persona occurs among the agents that differ in it only
--   base_agent varchar: the agent that differs in having no persona; itself where it
--       has none
--   base_reason varchar: why there is no base agent
-- equation: none
-- source: docs/metrics.md 3, by_strategy and by_persona
-- notes: agents are arms of one comparison if they have the same model and parameters
--     (the seed left out), and for personas the same strategy, for strategies the same
--     persona. Names do not matter. An agent with a persona has no base agent where
--     none has that model, these parameters, that strategy and persona none
--     (no_base_agent), or several have (several_base_agents). Unknown parameters are
--     equal to no other, and an unknown strategy or persona is none that occurs. What
--     an agent is is read from one of its attempts: its digest covers all of it.
with attempts as (
    select
        agent_name,
        agent_digest,
        min(stream_id) as stream_id
    from int_attempts_started
    group by agent_name, agent_digest
),

met as (
    select distinct
        benchmark,
        agent
    from int_trials_evaluated
),

described as (
    select
        met.benchmark,
        met.agent,
        started.model,
        started.strategy,
        started.persona,
        case
            when started.parameters_json is null then met.agent
            else json_merge_patch(started.parameters_json, '{"seed": null}')::varchar
        end as parameters_json
    from met
    inner join int_agents on met.agent = int_agents.agent
    inner join attempts
        on
            int_agents.agent_name = attempts.agent_name
            and int_agents.agent_digest = attempts.agent_digest
    inner join stg_trials_started as started
        on attempts.stream_id = started.stream_id
),

compared as (
    select
        benchmark,
        agent,
        model,
        strategy,
        persona,
        bool_or(strategy not in ('none', 'unknown'))
            over same_but_strategy as has_strategies,
        bool_or(persona not in ('none', 'unknown'))
            over same_but_persona as has_personas,
        count(*) filter (where persona = 'none') over same_but_persona as n_bases,
        min(agent) filter (where persona = 'none') over same_but_persona as any_base
    from described
    window
        same_but_strategy as (
            partition by benchmark, model, parameters_json, persona
        ),
        same_but_persona as (
            partition by benchmark, model, parameters_json, strategy
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
    end as base_reason
from compared
