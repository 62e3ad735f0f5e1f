-- view: costs
-- grain: stream_id, purpose
-- inputs: int_attempts, int_calls_summed
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   purpose varchar: who used the model; all is the sum
--   trial_id varchar: the trial
--   attempt integer: number of the attempt, from 1
--   attempt_state varchar: valid, ungraded, failed, running or interrupted
--   n_calls bigint: replies
--   input_tokens bigint: tokens sent
--   output_tokens bigint: tokens received
--   cached_input_tokens bigint: tokens read from a cache
--   cost_usd double: USD; null if a price is unknown
--   model_seconds double: time of model calls
-- equation: none
-- source: docs/metrics.md 8
-- notes: every attempt has the purposes agent, user_simulator and grader_and_judge. An
--     unknown price makes the cost null, never 0; without calls it is 0. A failed call
--     has no known tokens.
with purposes as (
    select
        attempts.stream_id,
        attempts.trial_id,
        attempts.attempt,
        attempts.attempt_state,
        unnest(['agent', 'user_simulator', 'grader_and_judge']) as purpose
    from int_attempts as attempts
)

select
    purposes.stream_id,
    purposes.purpose,
    purposes.trial_id,
    purposes.attempt,
    purposes.attempt_state,
    coalesce(calls.n_calls, 0) as n_calls,
    coalesce(calls.input_tokens, 0) as input_tokens,
    coalesce(calls.output_tokens, 0) as output_tokens,
    coalesce(calls.cached_input_tokens, 0) as cached_input_tokens,
    case
        when calls.stream_id is null then 0
        else calls.cost_usd
    end as cost_usd,
    coalesce(calls.model_seconds, 0) as model_seconds
from purposes
left join int_calls_summed as calls
    on
        purposes.stream_id = calls.stream_id
        and purposes.purpose = calls.purpose
