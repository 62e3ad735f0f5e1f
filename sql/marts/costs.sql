-- view: costs
-- grain: stream_id, purpose
-- inputs: int_attempts, int_calls_summed, int_questions_placed
-- outputs:
--   stream_id
--   purpose varchar: who used the model: agent, user_simulator, grader_and_judge, or
--       judging afterwards
--   trial_id, attempt
--   attempt_state varchar: valid, ungraded, failed, running or interrupted
--   n_calls bigint: replies; null if unknown
--   failed_calls bigint: requests without a usable reply; null if unknown
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
-- notes: every attempt has a row for every purpose. Only judging has rows only in
--     stores with later judgements. Without calls all values are 0. If a price is
--     unknown, the cost is null, not 0. Unknown tokens and times are null, too. For an
--     imported attempt without calls, the usage of agent and grader is unknown, and so
--     is the usage of the user simulator, unless there was no question. If the source
--     states the usage of the whole attempt, it counts as the agent's, whatever the sum
--     of the calls is. input_tokens include tokens read from and written to a cache,
--     and output_tokens include tokens of reasoning. For a failed call, the usage that
--     its provider reported is added. If the call may have been paid for and nothing
--     was reported, the sums are null.
with attempts as (
    select
        attempts.stream_id,
        attempts.trial_id,
        attempts.attempt,
        attempts.attempt_state,
        attempts.is_imported,
        attempts.channel <> 'ask_user'
        or (
            attempts.recorded_action_count is not null
            and attempts.stream_id not in (
                select questions.stream_id from int_questions_placed as questions
            )
        ) as is_unasked
    from int_attempts as attempts
),

judged as (
    select count(*) > 0 as has_any
    from int_calls_summed
    where purpose = 'judging'
),

purposes as (
    select
        attempts.stream_id,
        attempts.trial_id,
        attempts.attempt,
        attempts.attempt_state,
        attempts.is_imported,
        attempts.is_unasked,
        unnest(
            case
                when judged.has_any
                    then ['agent', 'user_simulator', 'grader_and_judge', 'judging']
                else ['agent', 'user_simulator', 'grader_and_judge']
            end
        ) as purpose
    from attempts
    cross join judged
),

joined as (
    select
        purposes.stream_id,
        purposes.purpose,
        purposes.trial_id,
        purposes.attempt,
        purposes.attempt_state,
        calls.stream_id is null
        and (
            not purposes.is_imported
            or purposes.purpose = 'judging'
            or (purposes.purpose = 'user_simulator' and purposes.is_unasked)
        ) as is_nothing,
        calls.n_calls,
        calls.failed_calls,
        coalesce(stated.stated_usage.input_tokens, calls.input_tokens) as input_tokens,
        coalesce(stated.stated_usage.output_tokens, calls.output_tokens)
            as output_tokens,
        coalesce(stated.stated_usage.cached_input_tokens, calls.cached_input_tokens)
            as cached_input_tokens,
        coalesce(stated.stated_usage.cache_write_tokens, calls.cache_write_tokens)
            as cache_write_tokens,
        calls.reasoning_tokens,
        coalesce(stated.recorded_cost_usd, calls.cost_usd) as cost_usd,
        calls.provider_cost_usd,
        calls.model_seconds
    from purposes
    left join int_calls_summed as calls
        on
            purposes.stream_id = calls.stream_id
            and purposes.purpose = calls.purpose
    left join int_attempts as stated
        on
            purposes.stream_id = stated.stream_id
            and purposes.purpose = 'agent'
            and stated.is_imported
)

select
    stream_id,
    purpose,
    trial_id,
    attempt,
    attempt_state,
    case when is_nothing then 0 else n_calls end as n_calls,
    case when is_nothing then 0 else failed_calls end as failed_calls,
    case when is_nothing then 0 else input_tokens end as input_tokens,
    case when is_nothing then 0 else output_tokens end as output_tokens,
    case when is_nothing then 0 else cached_input_tokens end as cached_input_tokens,
    case when is_nothing then 0 else cache_write_tokens end as cache_write_tokens,
    case when is_nothing then 0 else reasoning_tokens end as reasoning_tokens,
    case when is_nothing then 0 else cost_usd end as cost_usd,
    case when is_nothing then 0 else provider_cost_usd end as provider_cost_usd,
    case when is_nothing then 0 else model_seconds end as model_seconds
from joined
