-- view: replies_have_requests
-- grain: stream_id, call_id
-- inputs: int_attempts, int_streams_unpaired, stg_models_called, stg_models_failed,
--     stg_models_responded
-- outputs:
--   stream_id
--   call_id varchar: id of the call in its stream
--   n_requests bigint: requests
--   n_ends bigint: ends
-- equation: every reply or failure of a model has a request; in a finished attempt
--     every request has one reply or failure
-- source: docs/log-format.md: a long call is two events joined by call_id
-- notes: returns the calls that break the rule. Only the streams of
--     int_streams_unpaired are examined.
with marked as (
    select
        stream_id,
        call_id,
        1 as n_requests,
        0 as n_ends
    from stg_models_called
    where
        stream_id in (
            select unpaired.stream_id from int_streams_unpaired as unpaired
        )
    union all
    select
        stream_id,
        call_id,
        0 as n_requests,
        1 as n_ends
    from stg_models_responded
    where
        stream_id in (
            select unpaired.stream_id from int_streams_unpaired as unpaired
        )
    union all
    select
        stream_id,
        call_id,
        0 as n_requests,
        1 as n_ends
    from stg_models_failed
    where
        stream_id in (
            select unpaired.stream_id from int_streams_unpaired as unpaired
        )
),

paired as (
    select
        stream_id,
        call_id,
        sum(n_requests)::bigint as n_requests,
        sum(n_ends)::bigint as n_ends
    from marked
    group by stream_id, call_id
)

select
    paired.stream_id,
    paired.call_id,
    paired.n_requests,
    paired.n_ends
from paired
left join int_attempts as attempts
    on paired.stream_id = attempts.stream_id
where
    paired.n_requests = 0
    or paired.n_requests > 1
    or paired.n_ends > 1
    or (
        paired.n_ends = 0
        and attempts.attempt_state in ('valid', 'ungraded')
    )
