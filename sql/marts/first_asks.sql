-- view: first_asks
-- grain: trial_id
-- inputs: int_trials_measured
-- outputs:
--   trial_id varchar: the trial
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   task_id varchar: id of the task
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   trial_index bigint: index of the trial in its cell
--   question_count bigint: questions of the attempt that counts
--   action_count bigint: actions of the attempt that counts
--   first_ask_action bigint: action of the first question
--   first_ask_pct double: its place among the actions, %
-- equation: first_ask_pct = 100 * first_ask_action / action_count
-- source: docs/metrics.md 1, first-ask timing
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
from int_trials_measured
where trial_state = 'valid' and question_count > 0
