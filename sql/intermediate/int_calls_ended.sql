-- view: int_calls_ended
-- grain: stream_id, call_id
-- inputs: int_streams_unpaired, live_streams, stg_models_called, stg_models_failed,
--     stg_models_responded
-- outputs:
--   stream_id, trial_id
--   call_id varchar: id of the call in its stream
--   role varchar: agent, user_simulator, grader, judge, extractor or rewriter
--   is_reply boolean: the request got a usable reply
--   input_tokens bigint: tokens sent; null if unknown
--   output_tokens bigint: tokens received; null if unknown
--   cached_input_tokens bigint: tokens read from a cache; null if unknown
--   cache_write_tokens bigint: tokens written to a cache; null if unknown
--   reasoning_tokens bigint: tokens of reasoning; null if unknown
--   cost_usd double: USD; null if unknown
--   provider_cost_usd double: USD, as the provider reports it; null if it does not
--   latency_ms double: time of a reply, 0 without one; null if unknown
-- equation: none
-- source: docs/metrics.md 8
-- notes: the requests that have ended, with a reply, with a failure, or with neither
--     because the process ended. A request without reply or failure may have been paid
--     for, so its usage is unknown, unless its model is a script. Requests that are
--     still running are left out.
with unanswered as (
    select
        called.stream_id,
        called.trial_id,
        called.call_id,
        called.role,
        if(starts_with(called.model, 'scripted/'), 0, null) as used
    from stg_models_called as called
    anti join live_streams
        on called.stream_id = live_streams.stream_id
    anti join stg_models_responded as responded
        on
            called.stream_id = responded.stream_id
            and called.call_id = responded.call_id
    anti join stg_models_failed as failed
        on
            called.stream_id = failed.stream_id
            and called.call_id = failed.call_id
    where
        called.stream_id in (
            select unpaired.stream_id from int_streams_unpaired as unpaired
        )
)

select
    stream_id,
    trial_id,
    call_id,
    role,
    true as is_reply,
    input_tokens,
    output_tokens,
    cached_input_tokens,
    cache_write_tokens,
    reasoning_tokens,
    cost_usd,
    provider_cost_usd,
    latency_ms
from stg_models_responded
union all
select
    stream_id,
    trial_id,
    call_id,
    role,
    false as is_reply,
    if(used_nothing, 0, input_tokens) as input_tokens,
    if(used_nothing, 0, output_tokens) as output_tokens,
    if(used_nothing, 0, cached_input_tokens) as cached_input_tokens,
    if(used_nothing, 0, cache_write_tokens) as cache_write_tokens,
    if(used_nothing, 0, reasoning_tokens) as reasoning_tokens,
    if(used_nothing, 0, cost_usd) as cost_usd,
    if(used_nothing, 0, provider_cost_usd) as provider_cost_usd,
    0 as latency_ms
from stg_models_failed
union all
select
    stream_id,
    trial_id,
    call_id,
    role,
    false as is_reply,
    used as input_tokens,
    used as output_tokens,
    used as cached_input_tokens,
    used as cache_write_tokens,
    used as reasoning_tokens,
    used as cost_usd,
    used as provider_cost_usd,
    0 as latency_ms
from unanswered
