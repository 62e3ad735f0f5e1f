-- view: injections
-- grain: trial_id
-- inputs: int_injections, stg_clarifications_injected
-- outputs:
--   trial_id varchar: the trial
--   stream_id varchar: the attempt, or run, in the event stream
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   task_id varchar: id of the task
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   trial_index bigint: index of the trial in its cell
--   inject_percent bigint: p of inject_p
--   budget_actions bigint: oracle budget B, actions
--   computed_target_action bigint: target recomputed
--   injection_status varchar: injected or skipped
--   target_action bigint: a, as recorded; null if unknown
--   after_action bigint: action after which the message went in
--   skip_reason varchar: why it was skipped
--   segment_ids varchar[]: segments told; null if unknown
--   is_injected boolean: the message was really inserted; null unless injected
--       condition
--   action_count bigint: actions of the attempt that counts; null if unknown
--   is_collapsed boolean: another percentage gives the same action
-- equation: target = max(1, B * p div 100) for p in 10, 30, 50, 70, 90
-- source: docs/metrics.md 4, budget and injection action
-- notes: valid trials of the injected conditions. is_collapsed: another p of the unit
--     has the same target, so the conditions do not differ. Target and flag are null
--     without a budget.
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
