-- view: stg_tasks_registered
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, recorded_at_us, task_digest, benchmark
--   benchmark_version varchar: version of the benchmark
--   task_id
--   domain varchar: domain of the task
--   prompt varchar: prompt that the agent gets
--   checkpoints struct[]: checkpoints in the order of the terminal state
--   environment_digest varchar: digest of the environment
--   licence varchar: licence of the task
-- equation: none; renames the fields of one event type
-- source: recorder/events, event task_registered
-- notes: one row is one registration of one task.
select
    stream_id,
    sequence,
    recorded_at_us,
    task_registered.task_digest,
    task_registered.task.benchmark,
    task_registered.task.benchmark_version,
    task_registered.task.task_id,
    task_registered.task.domain,
    task_registered.task.prompt,
    task_registered.task.checkpoints,
    task_registered.task.environment_digest,
    task_registered.task.licence
from events
where type = 'task_registered'
