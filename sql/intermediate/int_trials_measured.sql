-- view: int_trials_measured
-- grain: trial_id
-- inputs: int_action_counts, int_agents, int_attempts, int_attempts_started,
--     int_experiments, int_grades, int_question_counts, int_tasks, int_trials,
--     stg_clarifications_injected
-- outputs:
--   trial_id varchar: the trial
--   trial_state varchar: valid, missing or running
--   stream_id varchar: the attempt, or run, in the event stream
--   keys_stream_id varchar: attempt that gives the keys
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
--   condition varchar: condition of the trials
--   prompt_state varchar: full, underspecified or control
--   channel varchar: none, ask_user or inject_p
--   user_simulator varchar: simulator; null without the channel
--   trial_index bigint: index of the trial in its cell
--   role varchar: evaluated or classifier
--   oracle_scope varchar: task or variant
--   settings_digest varchar: limits, parameters, prompts, grader, simulator and scope
--       as one digest
--   trials_per_cell bigint: planned trials per cell; null if unknown
--   inject_percent bigint: p of inject_p
--   budget_actions bigint: oracle budget B, actions
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
--   injection_status varchar: injected or skipped
--   target_action bigint: a, as recorded
--   attempts bigint: attempts started, whatever became of them
--   failed_attempts bigint: attempts that ended and do not count
-- equation: first_ask_pct = 100 * first_ask_action / action_count
-- source: docs/metrics.md 1
-- notes: every trial that was ever started, with the columns that tables are made of;
--     the mart trials has the others too. What a trial did is null unless it is valid.
--     checkpoint_progress is the benchmark's final score where it gives one. Of an
--     imported trial whose source does not tell what the agent did, actions and
--     questions are null.
with injected as (
    select
        stream_id,
        bool_or(injection_status = 'injected') as is_injected,
        max(after_action) as injected_after_action,
        arg_max(injection_status, sequence) as injection_status,
        arg_max(target_action, sequence) as target_action
    from stg_clarifications_injected
    group by stream_id
)

select
    int_trials.trial_id,
    int_trials.trial_state,
    int_trials.stream_id,
    int_trials.keys_stream_id,
    started.experiment_id,
    started.run_id,
    started.started_at_us,
    started.benchmark,
    started.task_id,
    started.task_digest,
    int_tasks.domain,
    started.variant_id,
    started.variant_digest,
    int_agents.agent,
    started.agent_name,
    started.agent_digest,
    started.condition,
    started.prompt_state,
    started.channel,
    started.user_simulator,
    started.trial_index,
    started.role,
    started.oracle_scope,
    started.settings_digest,
    int_experiments.trials_per_cell,
    started.inject_percent,
    started.budget_actions,
    ended.ended_by,
    ended.is_success,
    int_grades.terminal_state,
    int_grades.scores,
    coalesce(ended.final_progress, int_grades.points_progress)
        as checkpoint_progress,
    case
        when ended.recorded_action_count is not null
            then coalesce(int_action_counts.action_count, 0)
    end as action_count,
    case
        when ended.recorded_action_count is not null
            then coalesce(int_question_counts.question_count, 0)
    end as question_count,
    int_question_counts.first_ask_action,
    100.0
    * int_question_counts.first_ask_action
    / nullif(int_action_counts.action_count, 0) as first_ask_pct,
    case
        when int_trials.stream_id is not null and started.inject_percent is not null
            then coalesce(injected.is_injected, false)
    end as is_injected,
    injected.injected_after_action,
    injected.injection_status,
    injected.target_action,
    int_trials.attempts,
    int_trials.failed_attempts
from int_trials
inner join int_attempts_started as started
    on int_trials.keys_stream_id = started.stream_id
inner join int_agents
    on
        started.agent_name = int_agents.agent_name
        and started.agent_digest = int_agents.agent_digest
left join int_tasks
    on started.task_digest = int_tasks.task_digest
left join int_experiments
    on started.experiment_id = int_experiments.experiment_id
left join int_attempts as ended
    on int_trials.stream_id = ended.stream_id
left join int_grades
    on int_trials.stream_id = int_grades.stream_id
left join int_action_counts
    on int_trials.stream_id = int_action_counts.stream_id
left join int_question_counts
    on int_trials.stream_id = int_question_counts.stream_id
left join injected
    on int_trials.stream_id = injected.stream_id
