-- view: first_asks
-- grain: trial_id
-- inputs:
-- outputs:
-- equation: first_ask_pct = 100 * first_ask_action / action_count
-- source: METRICS 1, first-ask timing
-- notes: valid trials with at least one question; asks are counted in both terms.
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
from trials
where trial_state = 'valid' and question_count > 0
