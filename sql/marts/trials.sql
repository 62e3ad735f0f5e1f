-- view: trials
-- grain: trial_id
-- inputs: int_trials_measured, stg_trials_finished, stg_trials_started
-- outputs:
--   trial_id varchar: the trial
--   trial_state varchar: valid, missing or running
--   stream_id varchar: the attempt, or run, in the event stream
--   experiment_id varchar: name of the experiment
--   run_id varchar: the run
--   started_at_us bigint: UTC, microseconds since the epoch
--   benchmark varchar: name of the benchmark
--   task_id varchar: id of the task
--   task_digest varchar: digest of the task
--   domain varchar: domain of the task
--   variant_id varchar: id of the variant; null for a task's own trials
--   variant_digest varchar: digest of the variant
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   agent_name varchar: name of the agent as given
--   agent_digest varchar: digest of the agent
--   model varchar: model name
--   strategy varchar: strategy
--   persona varchar: persona
--   program varchar: name and version of the program that was the agent; null for the
--       native one
--   condition varchar: condition of the trials
--   prompt_state varchar: full, underspecified or control
--   channel varchar: none, ask_user or inject_p
--   user_simulator varchar: simulator; null without the channel
--   trial_index bigint: index of the trial in its cell
--   seed bigint: seed; null if unknown
--   role varchar: evaluated or classifier
--   oracle_scope varchar: task or variant
--   settings_digest varchar: limits, parameters, prompts, grader, simulator and scope
--       as one digest
--   trials_per_cell bigint: planned trials per cell; null if unknown
--   inject_percent bigint: p of inject_p
--   budget_actions bigint: oracle budget B, actions
--   inject_after_action bigint: target action as planned
--   ended_by varchar: submitted, turn_limit, action_limit, cost_limit, time_limit,
--       gave_up or resource_abuse
--   is_success boolean: success as the benchmark defines it
--   terminal_state double[]: checkpoint results in order
--   scores double[]: raw points in order
--   checkpoint_progress double: share of the points reached, 0 to 1
--   action_count bigint: actions of the attempt that counts; null if unknown
--   question_count bigint: questions of the attempt that counts; null if unknown
--   first_ask_action bigint: action of the first question
--   first_ask_pct double: its place among the actions, %
--   is_injected boolean: the message was really inserted; null unless injected
--       condition
--   injected_after_action bigint: action after which the message went in
--   attempts bigint: attempts started, whatever became of them
--   failed_attempts bigint: attempts that ended and do not count
--   charged_seconds double: of the agent's part, its own time, which max_seconds
--       limits; null if unknown
--   waited_seconds double: of the agent's part, waited for infrastructure; null if
--       unknown
-- equation: first_ask_pct = 100 * first_ask_action / action_count
-- source: docs/metrics.md 1
-- notes: every trial that was ever started. What a trial did is null unless it is
--     valid, and where it was imported and the source does not tell.
--     checkpoint_progress is the benchmark's final score where it gives one. The seed
--     is no part of the settings.
select
    measured.trial_id,
    measured.trial_state,
    measured.stream_id,
    measured.experiment_id,
    measured.run_id,
    measured.started_at_us,
    measured.benchmark,
    measured.task_id,
    measured.task_digest,
    measured.domain,
    measured.variant_id,
    measured.variant_digest,
    measured.agent,
    measured.agent_name,
    measured.agent_digest,
    started.model,
    started.strategy,
    started.persona,
    started.program,
    measured.condition,
    measured.prompt_state,
    measured.channel,
    measured.user_simulator,
    measured.trial_index,
    started.seed,
    measured.role,
    measured.oracle_scope,
    measured.settings_digest,
    measured.trials_per_cell,
    measured.inject_percent,
    measured.budget_actions,
    started.inject_after_action,
    measured.ended_by,
    measured.is_success,
    measured.terminal_state,
    measured.scores,
    measured.checkpoint_progress,
    measured.action_count,
    measured.question_count,
    measured.first_ask_action,
    measured.first_ask_pct,
    measured.is_injected,
    measured.injected_after_action,
    measured.attempts,
    measured.failed_attempts,
    finished.charged_ms / 1000 as charged_seconds,
    finished.waited_ms / 1000 as waited_seconds
from int_trials_measured as measured
inner join stg_trials_started as started
    on measured.keys_stream_id = started.stream_id
left join stg_trials_finished as finished
    on
        measured.stream_id = finished.stream_id
        and measured.trial_state = 'valid'
