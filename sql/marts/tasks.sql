-- view: tasks
-- grain: task_digest
-- inputs: int_variants, stg_tasks_registered
-- outputs:
--   task_digest, benchmark
--   benchmark_version varchar: version of the benchmark
--   task_id
--   is_latest boolean: the version of the task that was registered last
--   domain varchar: domain of the task
--   prompt varchar: prompt that the agent gets
--   checkpoint_count bigint: number of checkpoints
--   total_points double: points that can be reached
--   environment_digest varchar: digest of the environment
--   licence varchar: licence of the task
--   variant_count bigint: registered variants of the task, of any version
--   registered_at_us bigint: first registration, UTC, microseconds since the epoch
-- equation: none
-- source: docs/log-format.md, task_registered
-- notes: if the prompt, a checkpoint or the environment of a task changes, the task has
--     a new version with its own digest. The last registration decides which version is
--     the latest (ties by stream and sequence). Without checkpoints the points are 0.
with registered as (
    select
        task_digest,
        any_value(benchmark) as benchmark,
        any_value(benchmark_version) as benchmark_version,
        any_value(task_id) as task_id,
        any_value(domain) as domain,
        any_value(prompt) as prompt,
        any_value(checkpoints) as checkpoints,
        any_value(environment_digest) as environment_digest,
        any_value(licence) as licence,
        min(recorded_at_us) as registered_at_us,
        max((recorded_at_us, stream_id, sequence)) as last_place
    from stg_tasks_registered
    group by task_digest
),

made as (
    select
        benchmark,
        task_id,
        count(*) as variant_count
    from int_variants
    group by benchmark, task_id
)

select
    tasks.task_digest,
    tasks.benchmark,
    tasks.benchmark_version,
    tasks.task_id,
    row_number() over (
        partition by tasks.benchmark, tasks.task_id order by tasks.last_place desc
    ) = 1 as is_latest,
    tasks.domain,
    tasks.prompt,
    len(tasks.checkpoints) as checkpoint_count,
    coalesce(
        list_sum(list_transform(tasks.checkpoints, lambda each: each.total)), 0
    ) as total_points,
    tasks.environment_digest,
    tasks.licence,
    coalesce(made.variant_count, 0) as variant_count,
    tasks.registered_at_us
from registered as tasks
left join made
    on
        tasks.benchmark = made.benchmark
        and tasks.task_id = made.task_id
