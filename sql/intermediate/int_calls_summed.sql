-- view: int_calls_summed
-- grain: stream_id, purpose
-- inputs: int_calls_ended
-- outputs:
--   stream_id
--   purpose varchar: who used the model: agent, user_simulator, grader_and_judge, or
--       judging afterwards
--   n_calls bigint: replies
--   failed_calls bigint: requests without a usable reply or without an end
--   unreported_calls bigint: failed calls of unknown cost that may have been paid for
--   input_tokens bigint: tokens sent; null if unknown
--   output_tokens bigint: tokens received; null if unknown
--   cached_input_tokens bigint: tokens read from a cache; null if unknown
--   cache_write_tokens bigint: tokens written to a cache; null if unknown
--   reasoning_tokens bigint: tokens of reasoning; null if unknown
--   cost_usd double: USD; null if a price is unknown
--   provider_cost_usd double: USD, as the providers report it; null if one does not
--   model_seconds double: time of replies; null if unknown
-- equation: none
-- source: docs/metrics.md 8
-- notes: the calls in trials, and the calls of a judge about a finished trial. The
--     latter are in the stream of another command: their call ids begin with the stream
--     of the attempt, or of the last attempt if several were judged together. There is
--     one row for each purpose for which a model was called. A sum is null if the usage
--     of a reply, or of another call that may have used something (int_calls_ended), is
--     unknown.
with placed as (
    select
        case
            when trial_id is not null then stream_id
            else regexp_extract(call_id, '^judge-(.*)\.[0-9]+$', 1)
        end as stream_id,
        case
            when trial_id is null then 'judging'
            when role in ('grader', 'judge') then 'grader_and_judge'
            else role
        end as purpose,
        is_reply,
        input_tokens,
        output_tokens,
        cached_input_tokens,
        cache_write_tokens,
        reasoning_tokens,
        cost_usd,
        provider_cost_usd,
        latency_ms
    from int_calls_ended
    where
        role in ('agent', 'user_simulator', 'grader', 'judge')
        and (trial_id is not null or (role = 'judge' and call_id like 'judge-%'))
)

select
    stream_id,
    purpose,
    count(*) filter (where is_reply) as n_calls,
    count(*) filter (where not is_reply) as failed_calls,
    count(*) filter (where not is_reply and cost_usd is null) as unreported_calls,
    case when count(*) = count(input_tokens) then sum(input_tokens) end::bigint
        as input_tokens,
    case when count(*) = count(output_tokens) then sum(output_tokens) end::bigint
        as output_tokens,
    case
        when count(*) = count(cached_input_tokens) then sum(cached_input_tokens)
    end::bigint as cached_input_tokens,
    case
        when count(*) = count(cache_write_tokens) then sum(cache_write_tokens)
    end::bigint as cache_write_tokens,
    case when count(*) = count(reasoning_tokens) then sum(reasoning_tokens) end::bigint
        as reasoning_tokens,
    case when count(*) = count(cost_usd) then exact_sum(cost_usd) end as cost_usd,
    case
        when count(*) = count(provider_cost_usd) then exact_sum(provider_cost_usd)
    end as provider_cost_usd,
    case when count(*) = count(latency_ms) then exact_sum(latency_ms) / 1000 end
        as model_seconds
from placed
group by stream_id, purpose
