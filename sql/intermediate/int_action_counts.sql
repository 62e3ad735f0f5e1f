-- view: int_action_counts
-- grain: stream_id
-- inputs: stg_actions_started
-- outputs:
--   stream_id
--   action_count bigint: actions of the attempt
--   index_digest hugeint: multiset_digest of the actions' numbers
-- equation: actions = tool calls + malformed calls + turns of text alone
-- source: docs/metrics.md 1, actions
-- notes: the counts are those of recorded actions. An attempt without actions has no
--     row.
select
    stream_id,
    count(*) as action_count,
    multiset_digest(action_index) as index_digest
from stg_actions_started
group by stream_id
