-- view: int_tool_times
-- grain: stream_id
-- inputs: stg_actions_finished
-- outputs:
--   stream_id
--   tool_seconds double: time of actions; null if unknown
--   index_digest hugeint: multiset_digest of the numbers of the finished actions
-- equation: tool time = sum of the actions' durations, including those of questions
-- source: docs/metrics.md 8
-- notes: an attempt without finished actions has no row.
select
    stream_id,
    case when count(*) = count(duration_ms) then exact_sum(duration_ms) / 1000 end
        as tool_seconds,
    multiset_digest(action_index) as index_digest
from stg_actions_finished
group by stream_id
