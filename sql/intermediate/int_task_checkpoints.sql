-- view: int_task_checkpoints
-- grain: task_digest, position
-- inputs: stg_tasks_registered
-- outputs:
--   task_digest, position, benchmark
--   checkpoint_id varchar: id of the checkpoint
--   label varchar: description
--   total double: points that can be reached
-- equation: none
-- source: docs/metrics.md 1, terminal state: the order of task_registered
-- notes: a task without checkpoints has no row. Registrations with the same digest are
--     equal.
with tasks as (
    select
        task_digest,
        any_value(benchmark) as benchmark,
        any_value(checkpoints) as checkpoints
    from stg_tasks_registered
    group by task_digest
),

numbered as (
    select
        *,
        unnest(range(1, len(checkpoints) + 1)) as position
    from tasks
)

select
    task_digest,
    position,
    benchmark,
    checkpoints[position].checkpoint_id as checkpoint_id,
    checkpoints[position].label as label,
    checkpoints[position].total as total
from numbered
