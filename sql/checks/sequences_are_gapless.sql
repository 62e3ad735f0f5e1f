-- view: sequences_are_gapless
-- grain: stream_id
-- inputs: events, int_number_digests, int_streams
-- outputs:
--   stream_id
--   n_events bigint: events
--   n_sequences bigint: different sequences
--   first_sequence bigint: lowest sequence
--   last_sequence bigint: highest sequence
-- equation: the sequence numbers of a stream are 0, 1, 2, ... each once
-- source: docs/log-format.md, envelope
-- notes: returns the streams that break the rule. Only streams whose digest is not that
--     of 0, 1, 2, ... are examined.
with suspects as (
    select streams.stream_id
    from int_streams as streams
    inner join int_number_digests as digests
        on streams.n_events = digests.n
    where streams.sequence_digest <> digests.from_zero
),

counted as (
    select
        stream_id,
        count(*) as n_events,
        count(distinct sequence) as n_sequences,
        min(sequence) as first_sequence,
        max(sequence) as last_sequence
    from events
    where stream_id in (select suspects.stream_id from suspects)
    group by stream_id
)

select
    stream_id,
    n_events,
    n_sequences,
    first_sequence,
    last_sequence
from counted
where
    first_sequence <> 0
    or last_sequence <> n_events - 1
    or n_sequences <> n_events
