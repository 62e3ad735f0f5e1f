-- view: int_agents
-- grain: agent_name, agent_digest
-- inputs: int_attempts_started
-- outputs:
--   agent_name varchar: name of the agent as given
--   agent_digest varchar: digest of the agent
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
-- equation: none
-- source: docs/log-format.md, trial_id: a changed agent is another agent
-- notes: a name that stands for several agents is told apart by six digits of the
--     digest, so that their trials are never pooled.
with agents as (
    select
        agent_name,
        agent_digest
    from int_attempts_started
    group by agent_name, agent_digest
)

select
    agent_name,
    agent_digest,
    case
        when count(*) over (partition by agent_name) = 1 then agent_name
        else agent_name || '#' || left(agent_digest, 6)
    end as agent
from agents
