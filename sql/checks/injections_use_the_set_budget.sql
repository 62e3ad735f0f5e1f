-- view: injections_use_the_set_budget
-- grain: trial_id
-- inputs: budgets, int_trials
-- outputs:
--   trial_id, agent, task_id, variant_id, budget_actions
--   set_budget_actions bigint: budget of the unit, actions
-- equation: the budget of an injected trial is the budget of its unit
-- source: docs/metrics.md 4: fixed by oracle_budget_set; all injected trials of a unit
--     use it
-- notes: returns the valid trials that break the rule.
select
    trials.trial_id,
    trials.agent,
    trials.task_id,
    trials.variant_id,
    trials.budget_actions,
    budgets.budget_actions as set_budget_actions
from int_trials as trials
left join budgets
    on
        trials.benchmark = budgets.benchmark
        and trials.agent_digest = budgets.agent_digest
        and trials.experiment_id = budgets.experiment_id
        and trials.settings_digest
        = coalesce(budgets.settings_digest, trials.settings_digest)
        and trials.oracle_scope = budgets.scope
        and budgets.unit_id = case trials.oracle_scope
            when 'task' then trials.task_id
            else trials.variant_id
        end
where
    trials.trial_state = 'valid'
    and trials.inject_percent is not null
    and trials.budget_actions is distinct from budgets.budget_actions
