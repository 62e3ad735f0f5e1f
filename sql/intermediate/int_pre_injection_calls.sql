-- view: int_pre_injection_calls
-- grain: trial_id
-- inputs: int_oracle_traces, stg_actions_started, stg_models_responded
-- outputs:
--   trial_id varchar: the trial
--   tokens bigint: tokens
--   cost_usd double: USD; null if a price is unknown
-- equation: tokens = input + output
-- source: docs/metrics.md 4: tokens and cost of the calls whose served action is
--     pre-injection
-- notes: a call that served several actions of one batch counts once; every action
--     counts here, ask_user and text too. Cost is null where a price is unknown.
with served as (
    select
        actions.stream_id,
        actions.model_call_id
    from stg_actions_started as actions
    inner join int_oracle_traces as traces
        on
            actions.stream_id = traces.stream_id
            and actions.action_index <= traces.last_pre_injection_action
),

spent as (
    select
        stream_id,
        sum(input_tokens + output_tokens)::bigint as tokens,
        case when count(*) = count(cost_usd) then exact_sum(cost_usd) end as cost_usd
    from stg_models_responded
    where (stream_id, call_id) in (
        select (served.stream_id, served.model_call_id) from served
    )
    group by stream_id
)

select
    traces.trial_id,
    spent.tokens,
    spent.cost_usd
from int_oracle_traces as traces
inner join spent
    on traces.stream_id = spent.stream_id
