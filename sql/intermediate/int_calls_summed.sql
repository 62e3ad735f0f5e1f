-- view: int_calls_summed
-- grain: stream_id, purpose
-- inputs: stg_models_responded
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   purpose varchar: who used the model: agent, user_simulator, grader_and_judge, or
--       judging afterwards
--   n_calls bigint: replies
--   input_tokens bigint: tokens sent; null if unknown
--   output_tokens bigint: tokens received; null if unknown
--   cached_input_tokens bigint: tokens read from a cache; null if unknown
--   cost_usd double: USD; null if a price is unknown
--   model_seconds double: time of model calls; null if unknown
-- equation: none
-- source: docs/metrics.md 8
-- notes: replies in trials, and those of a judge about a trial that was over, in the
--     stream of another command: their call ids begin with the stream of the attempt,
--     of several judged together with the last one's. There is a row for each purpose
--     that a model was called for. One unknown part makes a sum null.
with replies as (
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
        input_tokens,
        output_tokens,
        cached_input_tokens,
        cost_usd,
        latency_ms
    from stg_models_responded
    where
        role in ('agent', 'user_simulator', 'grader', 'judge')
        and (trial_id is not null or (role = 'judge' and call_id like 'judge-%'))
)

select
    stream_id,
    purpose,
    count(*) as n_calls,
    case when count(*) = count(input_tokens) then sum(input_tokens) end::bigint
        as input_tokens,
    case when count(*) = count(output_tokens) then sum(output_tokens) end::bigint
        as output_tokens,
    case
        when count(*) = count(cached_input_tokens) then sum(cached_input_tokens)
    end::bigint as cached_input_tokens,
    case when count(*) = count(cost_usd) then exact_sum(cost_usd) end as cost_usd,
    case when count(*) = count(latency_ms) then exact_sum(latency_ms) / 1000 end
        as model_seconds
from replies
group by stream_id, purpose
