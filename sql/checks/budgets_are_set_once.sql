-- view: budgets_are_set_once
-- grain: experiment_id, benchmark, agent_digest, settings_digest, scope, unit_id
-- inputs: budgets
-- outputs:
--   experiment_id, benchmark, agent_digest
--   settings_digest varchar: settings of the trials used; null if this store lacks them
--   scope varchar: task or variant
--   unit_id
--   n_budgets bigint: budgets recorded
--   budgets_set bigint[]: the different values
-- equation: a unit of an experiment has one budget under the same settings, however
--     often it is recorded
-- source: docs/metrics.md 4: fixed by oracle_budget_set; docs/log-format.md: set once
-- notes: returns the units with several budgets. Two hosts that run one experiment may
--     both record the same budget.
select
    experiment_id,
    benchmark,
    agent_digest,
    settings_digest,
    scope,
    unit_id,
    count(*) as n_budgets,
    list(distinct budget_actions order by budget_actions) as budgets_set
from budgets
group by
    experiment_id, benchmark, agent_digest, settings_digest, scope, unit_id
having count(distinct budget_actions) > 1
