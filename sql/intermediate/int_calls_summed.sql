-- view: int_calls_summed
-- grain: stream_id, purpose
-- inputs: stg_models_responded
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   purpose varchar: who used the model: agent, user_simulator or grader_and_judge
--   n_calls bigint: replies
--   input_tokens bigint: tokens sent
--   output_tokens bigint: tokens received
--   cached_input_tokens bigint: tokens read from a cache
--   cost_usd double: USD; null if a price is unknown
--   model_seconds double: time of model calls
-- equation: none
-- source: docs/metrics.md 8
-- notes: replies in trials only; an attempt has a row for each purpose that it called a
--     model for. An unknown price makes the cost null.
select
    stream_id,
    case role
        when 'grader' then 'grader_and_judge'
        when 'judge' then 'grader_and_judge'
        else role
    end as purpose,
    count(*) as n_calls,
    sum(input_tokens)::bigint as input_tokens,
    sum(output_tokens)::bigint as output_tokens,
    sum(cached_input_tokens)::bigint as cached_input_tokens,
    case when count(*) = count(cost_usd) then exact_sum(cost_usd) end as cost_usd,
    exact_sum(latency_ms) / 1000 as model_seconds
from stg_models_responded
where
    trial_id is not null
    and role in ('agent', 'user_simulator', 'grader', 'judge')
group by all
