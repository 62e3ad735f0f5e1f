-- view: results_belong_to_checkpoints
-- grain: stream_id, checkpoint_id
-- inputs: int_attempts, int_task_checkpoints, stg_checkpoints_scored
-- outputs:
--   stream_id
--   checkpoint_id varchar: id of the checkpoint
--   total double: points that can be reached
--   registered_total double: points of the task's checkpoint
-- equation: a primary result names a checkpoint of its task and has the checkpoint's
--     total
-- source: docs/log-format.md, checkpoint_scored
-- notes: returns the results that break the rule. Only attempts that int_attempts marks
--     (has_strangers) are examined.
with suspects as (
    select stream_id
    from int_attempts
    where has_strangers
)

select
    scored.stream_id,
    scored.checkpoint_id,
    any_value(scored.total) as total,
    any_value(checkpoints.total) as registered_total
from stg_checkpoints_scored as scored
inner join int_attempts as started
    on scored.stream_id = started.stream_id
left join int_task_checkpoints as checkpoints
    on
        started.task_digest = checkpoints.task_digest
        and scored.checkpoint_id = checkpoints.checkpoint_id
where
    scored.stream_id in (select suspects.stream_id from suspects)
    and scored.is_primary
    and (
        checkpoints.checkpoint_id is null
        or scored.total <> checkpoints.total
    )
group by scored.stream_id, scored.checkpoint_id
