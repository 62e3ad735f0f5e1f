-- view: int_trials_evaluated
-- grain: trial_id
-- inputs: int_trials_measured, int_trials_screened
-- outputs:
--   trial_id varchar: the trial
--   stream_id varchar: the attempt, or run, in the event stream
--   trial_state varchar: valid, missing or running
--   benchmark varchar: name of the benchmark
--   task_id varchar: id of the task
--   variant_id varchar: id of the variant; null for a task's own trials
--   variant_digest varchar: digest of the variant
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   agent_digest varchar: digest of the agent
--   condition varchar: condition of the trials
--   channel varchar: none, ask_user or inject_p
--   prompt_state varchar: full, underspecified or control
--   oracle_scope varchar: task or variant
--   role varchar: evaluated or classifier
--   settings_digest varchar: limits, parameters, prompts, grader, simulator and scope
--       as one digest
--   trial_index bigint: index of the trial in its cell
--   trials_per_cell bigint: planned trials per cell; null if unknown
--   inject_percent bigint: p of inject_p
--   budget_actions bigint: oracle budget B, actions
--   is_injected boolean: the message was really inserted; null unless injected
--       condition
--   injected_after_action bigint: action after which the message went in
--   is_measured boolean: counts in means
--   is_success boolean: success as the benchmark defines it
--   checkpoint_progress double: share of the points reached, 0 to 1
--   action_count bigint: actions of the attempt that counts; null if unknown
--   question_count bigint: questions of the attempt that counts; null if unknown
--   first_ask_action bigint: action of the first question
--   first_ask_pct double: its place among the actions, %
-- equation: none
-- source: docs/metrics.md 2 and 4 (injected = false); parameter `intention_to_treat`
-- notes: the trials that the tables are made of, in every state. `is_measured` = valid,
--     and for injected conditions the message was really inserted, unless
--     intention_to_treat.
select
    trials.trial_id,
    trials.stream_id,
    trials.trial_state,
    trials.benchmark,
    trials.task_id,
    trials.variant_id,
    trials.variant_digest,
    int_trials_screened.ambiguity_class,
    trials.agent,
    trials.agent_digest,
    trials.condition,
    trials.channel,
    trials.prompt_state,
    trials.oracle_scope,
    trials.role,
    trials.settings_digest,
    trials.trial_index,
    trials.trials_per_cell,
    trials.inject_percent,
    trials.budget_actions,
    trials.is_injected,
    trials.injected_after_action,
    trials.trial_state = 'valid'
    and (
        coalesce(trials.is_injected, true) or getvariable('intention_to_treat')
    ) as is_measured,
    trials.is_success,
    trials.checkpoint_progress,
    trials.action_count,
    trials.question_count,
    trials.first_ask_action,
    trials.first_ask_pct
from int_trials_measured as trials
inner join int_trials_screened
    on trials.trial_id = int_trials_screened.trial_id
where int_trials_screened.exclusion is null
