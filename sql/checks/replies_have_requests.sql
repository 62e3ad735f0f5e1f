-- view: replies_have_requests
-- grain: stream_id, call_id
-- inputs: int_attempts, stg_models_called, stg_models_failed, stg_models_responded
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   call_id varchar: id of the call in its stream
--   n_requests bigint: requests
--   n_ends bigint: ends
-- equation: every reply or failure of a model has its request; in a finished attempt
--     every request has one of them
-- source: docs/log-format.md: a long call is two facts joined by call_id
-- notes: returns the calls that break it.
with ends as (
    select
        stream_id,
        call_id,
        count(*) as n_ends
    from (
        select
            stream_id,
            call_id
        from stg_models_responded
        union all
        select
            stream_id,
            call_id
        from stg_models_failed
    ) as replies
    group by stream_id, call_id
),

requests as (
    select
        stream_id,
        call_id,
        count(*) as n_requests
    from stg_models_called
    group by stream_id, call_id
),

paired as (
    select
        coalesce(requests.stream_id, ends.stream_id) as stream_id,
        coalesce(requests.call_id, ends.call_id) as call_id,
        coalesce(requests.n_requests, 0) as n_requests,
        coalesce(ends.n_ends, 0) as n_ends
    from requests
    full outer join ends
        on
            requests.stream_id = ends.stream_id
            and requests.call_id = ends.call_id
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
