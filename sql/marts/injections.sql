-- view: injections
-- grain: trial_id
-- inputs: int_injections, stg_clarifications_injected
-- outputs:
--   trial_id, stream_id, benchmark, agent, task_id, variant_id, condition, trial_index,
--   inject_percent, budget_actions
--   computed_target_action bigint: target recomputed
--   injection_status varchar: injected or skipped
--   target_action bigint: target action a, as recorded; null if unknown
--   after_action bigint: action after which the message was inserted
--   skip_reason varchar: why it was skipped
--   segment_ids varchar[]: segments that the message gives; null if unknown
--   is_injected boolean: the message was inserted; null unless injected condition
--   action_count bigint: actions of the attempt that counts; null if unknown
--   is_collapsed boolean: another percentage gives the same action
-- equation: target = max(1, B * p div 100) for p in 10, 30, 50, 70, 90
-- source: docs/metrics.md 4, budget and injection action
-- notes: the valid trials of the injected conditions. If is_collapsed, another p of the
--     unit has the same target, so the conditions do not differ. Target and flag are
--     null without a budget.
select
    injected.trial_id,
    injected.stream_id,
    injected.benchmark,
    injected.agent,
    injected.task_id,
    injected.variant_id,
    injected.condition,
    injected.trial_index,
    injected.inject_percent,
    injected.budget_actions,
    injected.computed_target_action,
    messages.injection_status,
    messages.target_action,
    messages.after_action,
    messages.skip_reason,
    messages.segment_ids,
    injected.is_injected,
    injected.action_count,
    injected.is_collapsed
from int_injections as injected
left join stg_clarifications_injected as messages
    on injected.stream_id = messages.stream_id
