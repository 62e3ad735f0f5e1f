-- view: int_streams
-- grain: stream_id
-- inputs: events
-- outputs:
--   stream_id
--   is_attempt boolean: the stream belongs to a trial
--   n_events bigint: events
--   last_sequence bigint: highest sequence
--   sequence_digest hugeint: multiset_digest of the sequences
--   n_starts bigint: starts
--   start_sequence bigint: sequence number of the start
--   n_ends bigint: ends
--   end_sequence bigint: sequence number of the end
-- equation: none
-- source: docs/log-format.md, envelope
-- notes: all streams, read in one pass over the envelopes. Starts and ends are those of
--     trials.
select
    stream_id,
    count(trial_id) > 0 as is_attempt,
    count(*) as n_events,
    max(sequence) as last_sequence,
    multiset_digest(sequence) as sequence_digest,
    count(*) filter (where type = 'trial_started') as n_starts,
    min(sequence) filter (where type = 'trial_started') as start_sequence,
    count(*) filter (where type in ('trial_finished', 'trial_failed')) as n_ends,
    max(sequence) filter (where type in ('trial_finished', 'trial_failed'))
        as end_sequence
from events
group by stream_id
