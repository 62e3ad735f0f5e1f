-- view: int_attempts
-- grain: stream_id
-- inputs: live_streams, stg_checkpoints_scored, stg_tasks_registered,
--     stg_trials_discarded, stg_trials_failed, stg_trials_finished,
--     stg_trials_started
-- outputs:
--   stream_id, trial_id, attempt
--   attempt_state varchar: valid, ungraded, failed, running or interrupted
--   gives_keys boolean: the attempt that counts, or the latest if none is valid
--   is_counted boolean: gives the trial its outcome
--   is_failed boolean: the attempt ended and does not count
--   experiment_id
--   started_at_us bigint: UTC, microseconds since the epoch; of an import its source's
--       time, null if unknown
--   recorded_at_us bigint: when the start was recorded
--   run_id, benchmark, task_id, task_digest
--   domain varchar: domain of the task
--   variant_id, variant_digest
--   prompt_state varchar: full, underspecified, control or faulty
--   channel varchar: none, ask_user or inject_p
--   condition
--   agent_name varchar: name of the agent as given
--   agent_digest, trial_index, role
--   oracle_scope varchar: task or variant
--   user_simulator, inject_percent, budget_actions
--   is_imported boolean: the source may lack any value
--   has_every_key boolean: the seed, limits, parameters and prompts are known
--   duration_ms double: milliseconds; null if unknown
--   ended_by varchar: how the agent's part ended, docs/metrics.md 1; null if unknown
--   is_ending_excluded boolean: `exclude_endings` contains its ending
--   is_success
--   results struct[]: position, result, score and total of each primary result, in the
--       order of the checkpoints
--   has_strangers boolean: a primary result names no checkpoint of the task, or has
--       another total; null without results
--   terminal_state double[]: checkpoint results in order
--   checkpoint_progress double: share of the points reached, 0 to 1
--   recorded_action_count bigint: actions that the runner counted; null if unknown
--   recorded_cost_usd double: USD that the runner summed, or that an import's source
--       states; null if a price is unknown
--   stated_usage struct: tokens of the agent that an import's source states; null if it
--       states none
--   stated_questions bigint: questions that an import's source counts without showing
--       its actions; null if it counts none
-- equation: valid = finished, and exactly one primary result for every checkpoint of
--     the task; result = 1 iff score = 1 (mcp_atlas), else result = score;
--     checkpoint_progress = the benchmark's final score, or else sum(score) /
--     sum(total)
-- source: docs/metrics.md 1, valid, missing and running, terminal state; the valid
--     attempt with the highest number counts; hosts of a shared store can use a number
--     twice, and then the attempt that began last counts; parameter `exclude_endings`
-- notes: an attempt without an end is running while a live writer has its stream open,
--     and interrupted otherwise. Attempts of a task that was never registered are
--     ungraded. A result that belongs to no checkpoint of the task is left out of the
--     lists. Columns of trial_finished are null unless the attempt finished.
--     Registrations with the same digest are equal. Attempts that were set aside are
--     left out.
with tasks as (
    select
        task_digest,
        any_value(domain) as domain,
        list_transform(any_value(checkpoints), lambda c: c.checkpoint_id)
            as checkpoint_ids,
        list_transform(any_value(checkpoints), lambda c: c.total) as totals
    from stg_tasks_registered
    group by task_digest
),

placed as (
    select
        scored.stream_id,
        list_position(tasks.checkpoint_ids, scored.checkpoint_id) as position,
        case started.benchmark
            when 'mcp_atlas' then (scored.score = 1)::double
            else scored.score
        end as result,
        scored.score,
        scored.total,
        tasks.totals
    from stg_checkpoints_scored as scored
    inner join stg_trials_started as started
        on scored.stream_id = started.stream_id
    left join tasks
        on started.task_digest = tasks.task_digest
    where scored.is_primary
),

graded as (
    select
        stream_id,
        list_sort(
            list(
                {
                    'position': position,
                    'result': result,
                    'score': score,
                    'total': total
                }
            ) filter (where position is not null)
        ) as results,
        bool_or(position is null or total <> totals[position]) as has_strangers
    from placed
    group by stream_id
),

ended as (
    select
        started.*,
        tasks.domain,
        coalesce(finished.duration_ms, failed.duration_ms) as duration_ms,
        finished.recorded_at_us - finished.elapsed_ns // 1000 as began_at_us,
        finished.ended_by,
        finished.is_success,
        finished.final_score / nullif(finished.final_total, 0) as final_progress,
        finished.action_count as recorded_action_count,
        coalesce(finished.cost_usd, failed.cost_usd) as recorded_cost_usd,
        coalesce(finished.stated_usage, failed.stated_usage) as stated_usage,
        finished.stated_questions,
        graded.results,
        graded.has_strangers,
        case
            when
                finished.stream_id is not null
                and coalesce(list_transform(graded.results, lambda r: r.position), [])
                = range(1, len(tasks.totals) + 1)
                then 'valid'
            when finished.stream_id is not null then 'ungraded'
            when failed.stream_id is not null then 'failed'
            when live_streams.stream_id is not null then 'running'
            else 'interrupted'
        end as attempt_state
    from stg_trials_started as started
    left join tasks
        on started.task_digest = tasks.task_digest
    left join graded
        on started.stream_id = graded.stream_id
    left join stg_trials_finished as finished
        on started.stream_id = finished.stream_id
    left join stg_trials_failed as failed
        on started.stream_id = failed.stream_id
    left join live_streams
        on started.stream_id = live_streams.stream_id
    where
        started.stream_id not in (
            select decisions.discarded_stream_id
            from stg_trials_discarded as decisions
            where decisions.is_last and not decisions.is_undone
        )
),

ranked as (
    select
        *,
        row_number() over (
            partition by trial_id
            order by
                attempt_state = 'valid' desc,
                attempt desc,
                case when attempt_state = 'valid' then began_at_us end desc,
                stream_id desc
        ) = 1 as gives_keys
    from ended
)

select
    stream_id,
    trial_id,
    attempt,
    attempt_state,
    gives_keys,
    gives_keys and attempt_state = 'valid' as is_counted,
    attempt_state <> 'running'
    and not (gives_keys and attempt_state = 'valid') as is_failed,
    experiment_id,
    started_at_us,
    recorded_at_us,
    run_id,
    benchmark,
    task_id,
    task_digest,
    domain,
    variant_id,
    variant_digest,
    prompt_state,
    channel,
    condition,
    agent as agent_name,
    agent_digest,
    trial_index,
    role,
    oracle_scope,
    user_simulator,
    inject_percent,
    budget_actions,
    coalesce(origin <> 'recorded', false) as is_imported,
    seed is not null
    and limits_json is not null
    and parameters_json is not null
    and prompts_digest is not null as has_every_key,
    duration_ms,
    ended_by,
    coalesce(
        list_contains(string_split(getvariable('exclude_endings'), ','), ended_by),
        false
    ) as is_ending_excluded,
    is_success,
    results,
    has_strangers,
    list_transform(results, lambda r: r.result) as terminal_state,
    coalesce(
        final_progress,
        list_sum(list_transform(results, lambda r: r.score))
        / nullif(list_sum(list_transform(results, lambda r: r.total)), 0)
    ) as checkpoint_progress,
    recorded_action_count,
    recorded_cost_usd,
    stated_usage,
    stated_questions
from ranked
