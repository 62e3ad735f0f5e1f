-- view: tasks_and_variants_are_registered
-- grain: stream_id
-- inputs: int_attempts, int_variants, stg_tasks_registered
-- outputs:
--   stream_id, task_id
--   has_task boolean: the task is registered
--   variant_id
--   has_variant boolean: the variant is registered, or there is none
-- equation: the task and the variant of a trial are registered with the digests that it
--     names
-- source: docs/log-format.md, task_registered and variant_generated
-- notes: returns the attempts that break the rule.
with registered as (
    select distinct task_digest
    from stg_tasks_registered
)

select
    started.stream_id,
    started.task_id,
    tasks.task_digest is not null as has_task,
    started.variant_id,
    started.variant_digest is null or variants.variant_digest is not null
        as has_variant
from int_attempts as started
left join registered as tasks
    on started.task_digest = tasks.task_digest
left join int_variants as variants
    on started.variant_digest = variants.variant_digest
where
    tasks.task_digest is null
    or (started.variant_digest is not null and variants.variant_digest is null)
