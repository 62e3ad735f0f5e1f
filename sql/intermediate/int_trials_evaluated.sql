-- view: int_trials_evaluated
-- grain: trial_id
-- inputs:
-- outputs:
-- equation: none
-- source: METRICS 2 and 4 (injected = false); parameter `intention_to_treat`
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
from trials
inner join int_trials_screened
    on trials.trial_id = int_trials_screened.trial_id
where int_trials_screened.exclusion is null
