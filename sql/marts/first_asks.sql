-- view: first_asks
-- grain: trial_id
-- inputs: int_trials
-- outputs:
--   trial_id, benchmark, agent, task_id, variant_id, condition, trial_index
--   question_count bigint: questions of the attempt that counts
--   action_count bigint: actions of the attempt that counts
--   first_ask_action bigint: action of the first question
--   first_ask_pct double: place of this action among the actions, %
-- equation: first_ask_pct = 100 * first_ask_action / action_count
-- source: docs/metrics.md 1, first-ask timing
-- notes: the valid trials with at least one question. Questions count as actions in
--     both numbers.
select
    trial_id,
    benchmark,
    agent,
    task_id,
    variant_id,
    condition,
    trial_index,
    question_count,
    action_count,
    first_ask_action,
    first_ask_pct
from int_trials
where trial_state = 'valid' and question_count > 0
