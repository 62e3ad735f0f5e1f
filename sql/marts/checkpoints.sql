-- view: checkpoints
-- grain: trial_id, checkpoint_id
-- inputs: int_attempts, int_task_checkpoints, int_trials, stg_checkpoints_scored
-- outputs:
--   trial_id
--   checkpoint_id varchar: id of the checkpoint
--   position, stream_id, benchmark, task_id, variant_id, agent, role, condition,
--   trial_index
--   label varchar: description
--   score double: points reached
--   total double: points that can be reached
--   share double: share of the points reached, 0 to 1; null if no points can be reached
--   result double: its value in the terminal state
--   details varchar: what the grader saw
--   grader varchar: who graded
-- equation: share = score / total; result = 1 iff score = 1 (mcp_atlas), else score
-- source: docs/metrics.md 1, checkpoint progress and terminal state
-- notes: the checkpoints of all valid trials, with the results that count. Later
--     results are in `gradings`. The order is that of task_registered.
with placed as (
    select
        trials.trial_id,
        trials.stream_id,
        trials.benchmark,
        trials.task_id,
        trials.task_digest,
        trials.variant_id,
        trials.agent,
        trials.role,
        trials.condition,
        trials.trial_index,
        unnest(attempts.results) as found
    from int_trials as trials
    inner join int_attempts as attempts
        on trials.stream_id = attempts.stream_id
)

select
    placed.trial_id,
    checkpoints.checkpoint_id,
    checkpoints.position,
    placed.stream_id,
    placed.benchmark,
    placed.task_id,
    placed.variant_id,
    placed.agent,
    placed.role,
    placed.condition,
    placed.trial_index,
    checkpoints.label,
    placed.found.score,
    placed.found.total,
    placed.found.score / nullif(placed.found.total, 0) as share,
    placed.found.result,
    scored.details,
    scored.grader
from placed
inner join int_task_checkpoints as checkpoints
    on
        placed.task_digest = checkpoints.task_digest
        and placed.found.position = checkpoints.position
inner join stg_checkpoints_scored as scored
    on
        placed.stream_id = scored.stream_id
        and checkpoints.checkpoint_id = scored.checkpoint_id
        and scored.is_primary
