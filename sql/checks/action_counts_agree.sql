-- view: action_counts_agree
-- grain: stream_id
-- inputs: int_action_counts, int_attempts
-- outputs:
--   stream_id
--   recorded_action_count bigint: as recorded
--   counted_action_count bigint: actions found
-- equation: trial_finished.action_count = number of actions started
-- source: docs/metrics.md 1, actions
-- notes: returns the attempts that break the rule.
select
    attempts.stream_id,
    attempts.recorded_action_count,
    coalesce(counts.action_count, 0) as counted_action_count
from int_attempts as attempts
left join int_action_counts as counts
    on attempts.stream_id = counts.stream_id
where attempts.recorded_action_count <> coalesce(counts.action_count, 0)
