-- view: int_grades
-- grain: stream_id
-- inputs: int_task_checkpoints, int_trials, stg_checkpoints_scored, stg_trials_started
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   terminal_state double[]: checkpoint results in order
--   scores double[]: raw points in order
--   points_progress double: share of the points, 0 to 1
-- equation: result = 1 iff score = 1 (mcp_atlas), else result = score; points progress
--     = sum(score) / sum(total)
-- source: docs/metrics.md 1, terminal state and checkpoint progress
-- notes: only attempts that count. Results stand in the order of task_registered.
with counted as (
    select
        int_trials.stream_id,
        stg_trials_started.task_digest
    from int_trials
    inner join stg_trials_started
        on int_trials.stream_id = stg_trials_started.stream_id
),

results as (
    select
        counted.stream_id,
        int_task_checkpoints.position,
        scored.score,
        scored.total,
        case int_task_checkpoints.benchmark
            when 'mcp_atlas' then (scored.score = 1)::double
            else scored.score
        end as result
    from counted
    inner join int_task_checkpoints
        on counted.task_digest = int_task_checkpoints.task_digest
    inner join stg_checkpoints_scored as scored
        on
            counted.stream_id = scored.stream_id
            and int_task_checkpoints.checkpoint_id = scored.checkpoint_id
            and scored.is_primary
)

select
    stream_id,
    list(result order by position) as terminal_state,
    list(score order by position) as scores,
    sum(score order by position) / nullif(sum(total order by position), 0)
        as points_progress
from results
group by stream_id
