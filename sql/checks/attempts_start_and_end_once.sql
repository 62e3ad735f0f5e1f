-- view: attempts_start_and_end_once
-- grain: stream_id
-- inputs: int_streams
-- outputs:
--   stream_id
--   n_starts bigint: starts
--   start_sequence bigint: sequence number of the start
--   n_ends bigint: ends
--   end_sequence bigint: sequence number of the end
--   last_sequence bigint: highest sequence
-- equation: an attempt begins with its only trial_started; if it has an end, this is
--     its only end and its last event
-- source: docs/log-format.md, events
-- notes: returns the attempts that break the rule.
select
    stream_id,
    n_starts,
    start_sequence,
    n_ends,
    end_sequence,
    last_sequence
from int_streams
where
    is_attempt
    and (
        n_starts <> 1
        or start_sequence <> 0
        or n_ends > 1
        or end_sequence < last_sequence
    )
