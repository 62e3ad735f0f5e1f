-- view: sequences_are_gapless
-- grain: stream_id
-- inputs: events
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   n_events bigint: events
--   n_sequences bigint: different sequences
--   first_sequence bigint: lowest sequence
--   last_sequence bigint: highest sequence
-- equation: the sequences of a stream are 0, 1, 2, ... each once
-- source: docs/log-format.md, envelope
-- notes: returns the streams that break it.
with streams as (
    select
        stream_id,
        count(*) as n_events,
        count(distinct sequence) as n_sequences,
        min(sequence) as first_sequence,
        max(sequence) as last_sequence
    from events
    group by stream_id
)

select
    stream_id,
    n_events,
    n_sequences,
    first_sequence,
    last_sequence
from streams
where
    first_sequence <> 0
    or last_sequence <> n_events - 1
    or n_sequences <> n_events
