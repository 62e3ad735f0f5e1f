-- view: int_trials
-- grain: trial_id
-- inputs: int_action_counts, int_attempt_arms, int_attempts, int_questions_placed,
--     stg_clarifications_injected
-- outputs:
--   trial_id, trial_state, stream_id
--   keys_stream_id varchar: attempt that gives the keys
--   experiment_id, run_id
--   started_at_us bigint: UTC, microseconds since the epoch; of an import its source's
--       time, null if unknown
--   recorded_at_us bigint: when the start was recorded
--   benchmark, task_id, task_digest
--   domain varchar: domain of the task
--   variant_id, variant_digest, agent
--   agent_name varchar: name of the agent as given
--   agent_digest, condition
--   prompt_state varchar: full, underspecified, control or faulty
--   channel varchar: none, ask_user or inject_p
--   user_simulator, trial_index, role
--   oracle_scope varchar: task or variant
--   settings_digest varchar: grader, limits, image, scope and prompts as one digest
--   trials_per_cell bigint: planned trials per cell; null if unknown
--   inject_percent, budget_actions
--   ended_by varchar: how the agent's part ended, docs/metrics.md 1; null if unknown
--   is_ending_excluded boolean: `exclude_endings` contains its ending
--   is_success
--   terminal_state double[]: checkpoint results in order
--   scores double[]: raw points in order
--   checkpoint_progress double: share of the points reached, 0 to 1
--   action_count bigint: actions of the attempt that counts; null if unknown
--   question_count bigint: questions of the attempt that counts; null if unknown
--   first_ask_action bigint: action of the first question
--   first_ask_pct double: place of this action among the actions, %
--   is_injected boolean: the message was inserted; null unless injected condition
--   injected_after_action bigint: action after which the message was inserted
--   injection_status varchar: injected or skipped
--   target_action bigint: target action a, as recorded
--   attempts bigint: attempts started, however they ended
--   failed_attempts bigint: attempts that ended and do not count
-- equation: first_ask_pct = 100 * first_ask_action / action_count
-- source: docs/metrics.md 1
-- notes: all trials that were ever started, with the columns that tables need. The mart
--     trials also has the other columns. A trial's keys are those of the attempt that
--     counts, or of the latest attempt if none is valid. The outcome is null if the
--     trial is not valid. The action count of an imported trial is null if its source
--     does not show the actions. Its question count is then the number that the source
--     states, or null. The first ask is null if the action of any question is unknown.
with counted as (
    select
        trial_id,
        count(*) as attempts,
        count(*) filter (where is_failed) as failed_attempts,
        bool_or(attempt_state = 'running') as is_running
    from int_attempts
    group by trial_id
),

arms as (
    select distinct
        stream_id,
        trial_agent,
        settings_digest,
        trials_per_cell
    from int_attempt_arms
),

questions as (
    select
        stream_id,
        count(*) as question_count,
        case when count(*) = count(action_index) then min(action_index) end
            as first_ask_action
    from int_questions_placed
    group by stream_id
),

injected as (
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
    keys.trial_id,
    case
        when ended.stream_id is not null then 'valid'
        when counted.is_running then 'running'
        else 'missing'
    end as trial_state,
    ended.stream_id,
    keys.stream_id as keys_stream_id,
    keys.experiment_id,
    keys.run_id,
    keys.started_at_us,
    keys.recorded_at_us,
    keys.benchmark,
    keys.task_id,
    keys.task_digest,
    keys.domain,
    keys.variant_id,
    keys.variant_digest,
    arms.trial_agent as agent,
    keys.agent_name,
    keys.agent_digest,
    keys.condition,
    keys.prompt_state,
    keys.channel,
    keys.user_simulator,
    keys.trial_index,
    keys.role,
    keys.oracle_scope,
    arms.settings_digest,
    arms.trials_per_cell,
    keys.inject_percent,
    keys.budget_actions,
    ended.ended_by,
    coalesce(ended.is_ending_excluded, false) as is_ending_excluded,
    ended.is_success,
    ended.terminal_state,
    list_transform(ended.results, lambda r: r.score) as scores,
    ended.checkpoint_progress,
    case
        when ended.recorded_action_count is not null
            then coalesce(actions.action_count, 0)
    end as action_count,
    case
        when ended.recorded_action_count is not null
            then coalesce(questions.question_count, 0)
        else ended.stated_questions
    end as question_count,
    questions.first_ask_action,
    100.0 * questions.first_ask_action / nullif(actions.action_count, 0)
        as first_ask_pct,
    case
        when ended.stream_id is not null and keys.inject_percent is not null
            then coalesce(injected.is_injected, false)
    end as is_injected,
    injected.injected_after_action,
    injected.injection_status,
    injected.target_action,
    counted.attempts,
    counted.failed_attempts
from int_attempts as keys
inner join counted
    on keys.trial_id = counted.trial_id
inner join arms
    on keys.stream_id = arms.stream_id
left join int_attempts as ended
    on keys.stream_id = ended.stream_id and ended.is_counted
left join int_action_counts as actions
    on ended.stream_id = actions.stream_id
left join questions
    on ended.stream_id = questions.stream_id
left join injected
    on ended.stream_id = injected.stream_id
where keys.gives_keys
