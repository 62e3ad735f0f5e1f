-- view: int_streams_unpaired
-- grain: stream_id
-- inputs: stg_models_called, stg_models_failed, stg_models_responded
-- outputs:
--   stream_id
-- equation: none
-- source: docs/log-format.md: a long call is two events joined by call_id
-- notes: the streams in which a request repeats, or whose requests and ends have
--     different digests. In all other streams every request has one end, so their calls
--     need no check.
with digests as (
    select
        stream_id,
        multiset_digest(call_id) as call_digest,
        count(*) > list_unique(list(hash(call_id))) as has_repeats
    from stg_models_called
    group by stream_id
    union all
    select
        stream_id,
        -multiset_digest(call_id) as call_digest,
        false as has_repeats
    from stg_models_responded
    group by stream_id
    union all
    select
        stream_id,
        -multiset_digest(call_id) as call_digest,
        false as has_repeats
    from stg_models_failed
    group by stream_id
)

select stream_id
from digests
group by stream_id
having sum(call_digest) <> 0 or bool_or(has_repeats)
