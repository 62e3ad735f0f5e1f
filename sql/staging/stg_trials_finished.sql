-- view: stg_trials_finished
-- grain: stream_id
-- inputs: events
-- outputs:
--   stream_id, sequence, recorded_at_us
--   elapsed_ns bigint: time since the stream began, nanoseconds
--   trial_id, attempt
--   ended_by varchar: how the agent's part ended, docs/metrics.md 1; null if unknown
--   is_success
--   final_answer varchar: final answer of the agent; null if unknown
--   action_count bigint: actions that the runner counted; null if unknown
--   checkpoint_count bigint: checkpoints graded
--   duration_ms double: wall time, milliseconds; null if unknown
--   final_score double: final score that the benchmark gives
--   final_total double: total of the final score
--   cost_usd double: USD of the attempt; null if a price is unknown
--   charged_ms double: time of the agent's own work, which max_seconds limits; null if
--       unknown
--   waited_ms double: time that the agent waited for infrastructure; null if unknown
--   late_ms double: part of waited_ms in which the recorder was late; null if unknown
--   stated_usage struct: tokens of the agent that an import's source states; null if it
--       states none
--   stated_actions bigint: actions that an import's source counts without showing them;
--       null if it counts none
--   stated_questions bigint: questions that an import's source counts without showing
--       them; null if it counts none
-- equation: none; renames the fields of one event type
-- source: recorder/events, event trial_finished
-- notes: one row is one attempt that ran to its end.
select
    stream_id,
    sequence,
    recorded_at_us,
    elapsed_ns,
    trial_id,
    attempt,
    trial_finished.ended_by,
    trial_finished.is_success,
    trial_finished.final_answer,
    trial_finished.action_count,
    trial_finished.checkpoint_count,
    trial_finished.duration_ms,
    trial_finished.final_score,
    trial_finished.final_total,
    trial_finished.cost_usd,
    trial_finished.charged_ms,
    trial_finished.waited_ms,
    trial_finished.late_ms,
    trial_finished.stated_usage,
    trial_finished.stated_actions,
    trial_finished.stated_questions
from events
where type = 'trial_finished'
