-- view: int_task_clusters
-- grain: benchmark, task_id
-- inputs: int_attempts, int_variants, stg_tasks_registered
-- outputs:
--   benchmark, task_id
--   cluster_id
-- equation: none
-- source: docs/metrics.md 5; parameter `cluster`
-- notes: the cluster is the task itself. With `cluster = domain` it consists of all
--     tasks of the same benchmark and domain; the domain that was registered last
--     counts. A task without a domain is its own cluster.
with tasks as (
    select
        benchmark,
        task_id
    from int_attempts
    union
    select
        benchmark,
        task_id
    from int_variants
),

domains as (
    select
        benchmark,
        task_id,
        arg_max(domain, (recorded_at_us, stream_id, sequence)) as domain
    from stg_tasks_registered
    where getvariable('cluster') = 'domain'
    group by benchmark, task_id
)

select
    tasks.benchmark,
    tasks.task_id,
    case
        when domains.domain is null
            then concat_ws('|', tasks.benchmark, 'task', tasks.task_id)
        else concat_ws('|', tasks.benchmark, 'domain', domains.domain)
    end as cluster_id
from tasks
left join domains
    on tasks.benchmark = domains.benchmark and tasks.task_id = domains.task_id
