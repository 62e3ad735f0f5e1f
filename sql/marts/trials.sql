-- view: trials
-- grain: trial_id
-- inputs:
-- outputs:
-- equation: first_ask_pct = 100 * first_ask_action / action_count
-- source: METRICS 1
-- notes: every trial that was ever started. What a trial did is null unless it is
--     valid. checkpoint_progress is the benchmark's final score where it gives one.
with measured as (
    select
        stream_id,
        ended_by,
        is_success,
        final_score / nullif(final_total, 0) as final_progress
    from stg_trials_finished
),

injected as (
    select
        stream_id,
        bool_or(injection_status = 'injected') as is_injected,
        max(after_action) as injected_after_action
    from stg_clarifications_injected
    group by stream_id
)

select
    int_trials.trial_id,
    int_trials.trial_state,
    int_trials.stream_id,
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
    int_agents.agent_name,
    started.agent_digest,
    started.model,
    started.strategy,
    started.persona,
    started.condition,
    started.prompt_state,
    started.channel,
    started.user_simulator,
    started.trial_index,
    started.seed,
    started.role,
    started.oracle_scope,
    md5(
        concat_ws(
            '|',
            started.grader,
            started.limits_json,
            started.parameters_json,
            started.prompts_digest,
            started.ask_notice,
            started.user_simulator,
            started.oracle_scope
        )
    ) as settings_digest,
    int_runs_planned.trials_per_cell,
    started.inject_percent,
    started.budget_actions,
    started.inject_after_action,
    measured.ended_by,
    measured.is_success,
    int_grades.terminal_state,
    int_grades.scores,
    coalesce(measured.final_progress, int_grades.points_progress)
        as checkpoint_progress,
    case
        when int_trials.stream_id is not null
            then coalesce(int_action_counts.action_count, 0)
    end as action_count,
    case
        when int_trials.stream_id is not null
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
    int_trials.attempts,
    int_trials.failed_attempts
from int_trials
inner join stg_trials_started as started
    on int_trials.keys_stream_id = started.stream_id
inner join int_agents
    on
        started.agent = int_agents.agent_name
        and started.agent_digest = int_agents.agent_digest
left join int_tasks
    on started.task_digest = int_tasks.task_digest
left join int_runs_planned
    on started.run_id = int_runs_planned.run_id
left join measured
    on int_trials.stream_id = measured.stream_id
left join int_grades
    on int_trials.stream_id = int_grades.stream_id
left join int_action_counts
    on int_trials.stream_id = int_action_counts.stream_id
left join int_question_counts
    on int_trials.stream_id = int_question_counts.stream_id
left join injected
    on int_trials.stream_id = injected.stream_id
