-- view: stg_trials_started
-- grain: stream_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt, experiment_id
--   started_at_us bigint: UTC, microseconds since the epoch; of an import its source's
--       time, null if unknown
--   recorded_at_us bigint: when the start was recorded
--   run_id, benchmark
--   benchmark_version varchar: version of the benchmark
--   task_id, task_digest, variant_id, variant_digest
--   prompt_state varchar: full, underspecified, control or faulty
--   channel varchar: none, ask_user or inject_p
--   condition, agent, agent_digest, model, strategy, persona
--   ask_notice varchar: none or paper
--   trial_index
--   seed bigint: seed; null if unknown
--   role
--   grader varchar: who graded
--   limits_json varchar: limits as canonical JSON; null if unknown
--   parameters_json varchar: model parameters as canonical JSON; null if unknown
--   prompts_digest varchar: digest of the prompts; null if unknown
--   oracle_scope varchar: task or variant
--   sandbox varchar: kind of sandbox
--   user_simulator
--   user_simulator_digest varchar: digest of the simulator's model and prompts
--   inject_percent, budget_actions
--   inject_after_action bigint: target action as planned
--   program varchar: name and version of the program that was the agent; null for the
--       native agent
--   origin varchar: recorded, or the format that it was imported from
--   instruments varchar: versions of the table of endings, the simulated user and the
--       judge; null if imported
--   response_json varchar: how the user responds under ask_user_NAME, as canonical
--       JSON; else null
--   asks_by varchar: how the agent asks if it may: built_in, mcp, prose or none; null
--       if unknown
--   host varchar: what ran the program: process, or acp/VERSION; null for the native
--       agent, or if unknown
-- equation: none; renames the fields of one event type
-- source: recorder/events, event trial_started
-- notes: one row is one attempt of one trial.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    experiment_id,
    case
        when trial_started.origin = 'recorded' then recorded_at_us
        else trial_started.source_started_at_us
    end as started_at_us,
    recorded_at_us,
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
    trial_started.user_simulator_digest,
    trial_started.inject_percent,
    trial_started.budget_actions,
    trial_started.inject_after_action,
    trial_started.program,
    trial_started.origin,
    trial_started.instruments,
    trial_started.response_json,
    trial_started.asks_by,
    trial_started.host
from events
where type = 'trial_started'
