-- view: stg_trials_started
-- grain: stream_id
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event trial_started
-- notes: one row is one attempt of one trial.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    experiment_id,
    recorded_at_us as started_at_us,
    trial_started.run_id,
    trial_started.benchmark,
    trial_started.benchmark_version,
    trial_started.task_id,
    trial_started.task_digest,
    trial_started.variant_id,
    trial_started.variant_digest,
    trial_started.prompt_state,
    trial_started.channel,
    trial_started.condition,
    trial_started.agent,
    trial_started.agent_digest,
    trial_started.model,
    trial_started.strategy,
    trial_started.persona,
    trial_started.ask_notice,
    trial_started.trial_index,
    trial_started.seed,
    trial_started.role,
    trial_started.grader,
    trial_started.limits_json,
    trial_started.parameters_json,
    trial_started.prompts_digest,
    trial_started.oracle_scope,
    trial_started.sandbox,
    trial_started.user_simulator,
    trial_started.inject_percent,
    trial_started.budget_actions,
    trial_started.inject_after_action
from events
where type = 'trial_started'
