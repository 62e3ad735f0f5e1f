-- view: int_trials_evaluated
-- grain: trial_id, agent
-- inputs: ambiguity_classes, int_attempt_arms, int_trials, int_trials_screened
-- outputs:
--   trial_id, stream_id, trial_state, benchmark, task_id, variant_id, variant_digest,
--   ambiguity_class, agent, agent_digest, condition
--   channel varchar: none, ask_user or inject_p
--   prompt_state varchar: full, underspecified, control or faulty
--   oracle_scope varchar: task or variant
--   role
--   settings_digest varchar: grader, limits, image, scope and prompts as one digest
--   trial_index
--   trials_per_cell bigint: planned trials per cell; null if unknown
--   inject_percent, budget_actions
--   is_injected boolean: the message was inserted; null unless injected condition
--   injected_after_action bigint: action after which the message was inserted
--   is_measured boolean: counts in means
--   is_success
--   checkpoint_progress double: share of the points reached, 0 to 1
--   action_count bigint: actions of the attempt that counts; null if unknown
--   question_count bigint: questions of the attempt that counts; null if unknown
--   first_ask_action bigint: action of the first question
--   first_ask_pct double: place of this action among the actions, %
-- equation: none
-- source: docs/metrics.md 2, 4 (injected = false) and 5 (settings); parameter
--     `intention_to_treat`
-- notes: the trials that the tables use, in all states. Trials of new_task variants are
--     left out; those of unlabelled variants are kept. `is_measured` means that the
--     trial is valid and, under injected conditions without intention_to_treat, that
--     the message was inserted. A trial that several arms share has a row for each arm.
select
    trials.trial_id,
    trials.stream_id,
    trials.trial_state,
    trials.benchmark,
    trials.task_id,
    trials.variant_id,
    trials.variant_digest,
    ambiguity_classes.ambiguity_class,
    arms.agent,
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
from int_trials as trials
inner join int_attempt_arms as arms
    on trials.keys_stream_id = arms.stream_id
inner join int_trials_screened
    on trials.trial_id = int_trials_screened.trial_id
left join ambiguity_classes
    on trials.variant_digest = ambiguity_classes.variant_digest
where
    int_trials_screened.exclusion is null
    and ambiguity_classes.ambiguity_class is distinct from 'new_task'
    and arms.is_chosen
