-- view: int_trial_costs
-- grain: trial_id, purpose
-- inputs: costs, int_trials
-- outputs:
--   trial_id varchar: the trial
--   purpose varchar: who used the model; all is the sum
--   n_calls bigint: replies
--   input_tokens bigint: tokens sent
--   output_tokens bigint: tokens received
--   cost_usd double: USD; null if a price is unknown
--   model_seconds double: time of model calls
--   failed_tokens bigint: their tokens
--   failed_cost_usd double: their USD; null if a price is unknown
-- equation: purpose all = agent + user_simulator + grader_and_judge
-- source: docs/metrics.md 8
-- notes: what the attempt that counts used, and in columns of their own what the other
--     ended attempts used. An unknown price makes the sum null.
with purposes as (
    select
        costs.trial_id,
        unnest([costs.purpose, 'all']) as purpose,
        int_trials.stream_id is not null as is_counted,
        int_trials.stream_id is null and costs.attempt_state <> 'running' as is_failed,
        costs.stream_id || '|' || costs.purpose as cost_id,
        costs.n_calls,
        costs.input_tokens,
        costs.output_tokens,
        costs.cost_usd,
        costs.model_seconds
    from costs
    left join int_trials on costs.stream_id = int_trials.stream_id
)

select
    trial_id,
    purpose,
    coalesce(sum(n_calls) filter (where is_counted), 0)::bigint as n_calls,
    coalesce(sum(input_tokens) filter (where is_counted), 0)::bigint
        as input_tokens,
    coalesce(sum(output_tokens) filter (where is_counted), 0)::bigint
        as output_tokens,
    case
        when bool_and(cost_usd is not null) filter (where is_counted)
            then sum(cost_usd order by cost_id) filter (where is_counted)
    end as cost_usd,
    coalesce(sum(model_seconds) filter (where is_counted), 0) as model_seconds,
    coalesce(sum(input_tokens + output_tokens) filter (where is_failed), 0)::bigint
        as failed_tokens,
    case
        when coalesce(bool_and(cost_usd is not null) filter (where is_failed), true)
            then coalesce(
                sum(cost_usd order by cost_id) filter (where is_failed), 0
            )
    end as failed_cost_usd
from purposes
group by trial_id, purpose
