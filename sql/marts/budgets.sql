-- view: budgets
-- grain: stream_id, sequence
-- inputs: int_trials, stg_oracle_budgets_set
-- outputs:
--   stream_id, sequence, experiment_id, benchmark, agent, agent_digest
--   settings_digest varchar: settings of the trials used; null if this store lacks them
--   scope varchar: task or variant
--   unit_id varchar: task id or variant id, by scope
--   budget_actions
--   computed_budget_actions bigint: B recomputed, actions
--   trial_ids varchar[]: trials used
--   action_counts bigint[]: action counts of the trials used
-- equation: B = (2 * sum + n) div (2 * n), the mean rounded half up
-- source: docs/metrics.md 4, budget
-- notes: the recorded budget, and the budget recomputed from the recorded counts.
--     Without counts the recomputed budget is null.
select
    budgets.stream_id,
    budgets.sequence,
    budgets.experiment_id,
    budgets.benchmark,
    budgets.agent,
    budgets.agent_digest,
    trials.settings_digest,
    budgets.scope,
    budgets.unit_id,
    budgets.budget_actions,
    case
        when len(budgets.action_counts) > 0
            then
                (
                    2 * list_sum(budgets.action_counts)::bigint
                    + len(budgets.action_counts)
                )
                // (2 * len(budgets.action_counts))
    end as computed_budget_actions,
    budgets.trial_ids,
    budgets.action_counts
from stg_oracle_budgets_set as budgets
left join int_trials as trials on budgets.trial_ids[1] = trials.trial_id
