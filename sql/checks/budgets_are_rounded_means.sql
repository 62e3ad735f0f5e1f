-- view: budgets_are_rounded_means
-- grain: stream_id, sequence
-- inputs: budgets
-- outputs:
--   stream_id, sequence, unit_id, budget_actions
--   computed_budget_actions bigint: B recomputed, actions
--   action_counts bigint[]: action counts of the trials used
-- equation: B = (2 * sum + n) div (2 * n)
-- source: docs/metrics.md 4, budget
-- notes: returns the budgets that break the rule.
select
    stream_id,
    sequence,
    unit_id,
    budget_actions,
    computed_budget_actions,
    action_counts
from budgets
where budget_actions is distinct from computed_budget_actions
