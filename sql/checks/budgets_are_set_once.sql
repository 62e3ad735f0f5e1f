-- view: budgets_are_set_once
-- grain: benchmark, agent_digest, scope, unit_id
-- inputs: budgets
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent_digest varchar: digest of the agent
--   scope varchar: task or variant
--   unit_id varchar: task or variant id
--   n_budgets bigint: budgets recorded
--   budgets_set bigint[]: the different values
-- equation: a unit has one budget, however often it is recorded
-- source: docs/metrics.md 4: fixed by oracle_budget_set; docs/log-format.md: once
-- notes: returns the units with several. Two hosts that run one experiment may both
--     record it.
select
    benchmark,
    agent_digest,
    scope,
    unit_id,
    count(*) as n_budgets,
    list(distinct budget_actions order by budget_actions) as budgets_set
from budgets
group by benchmark, agent_digest, scope, unit_id
having count(distinct budget_actions) > 1
