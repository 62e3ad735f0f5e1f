-- view: wasted_trials
-- grain: trial_id
-- inputs: int_oracle_traces, stg_actions_started, stg_models_responded
-- outputs:
--   trial_id, benchmark, agent, task_id, variant_id, condition
--   pre_injection_actions bigint: actions before the message; null if unknown
--   wasted_actions bigint: actions without counterpart; null if unknown
--   wasted_ratio double: wasted / pre-injection actions, 0 to 1
--   reason
--   pre_injection_tokens bigint: tokens before the message; null if unknown
--   pre_injection_cost_usd double: USD before the message; null if a price is unknown
-- equation: wasted = sum over keys of max(0, actions - supply), which are the actions
--     that wasted_actions marks; wasted_ratio = wasted / pre-injection actions
-- source: docs/metrics.md 4, wasted compute, also tokens and cost of the calls whose
--     served action is pre-injection
-- notes: without pre-injection actions the ratio is null (no_actions). If no `full`
--     trial has known actions, ratio and count are null (no_oracle_trace). If the
--     trial's actions are unknown, its counts are null (unknown_actions). Tokens are
--     input + output. A call that served several actions of one batch counts once. The
--     calls behind ask_user and turns of text count, too. Tokens and cost are null if
--     one of these calls, its reply, its tokens or its price is unknown. They are 0
--     without such actions.
with listed as (
    select
        trial_id,
        unnest(actions) as action
    from int_oracle_traces
),

tallied as (
    select
        trial_id,
        action.action_key,
        count(*) as n_actions,
        any_value(action.supply) as supply
    from listed
    group by trial_id, action.action_key
),

counted as (
    select
        trial_id,
        sum(n_actions)::bigint as pre_injection_actions,
        sum(greatest(n_actions - supply, 0))::bigint as wasted_actions
    from tallied
    group by trial_id
),

served as (
    select distinct
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
        count(*) as n_calls,
        case
            when count(*) = count(input_tokens + output_tokens)
                then sum(input_tokens + output_tokens)
        end::bigint as tokens,
        case when count(*) = count(cost_usd) then exact_sum(cost_usd) end as cost_usd
    from stg_models_responded
    where (stream_id, call_id) in (
        select (served.stream_id, served.model_call_id) from served
    )
    group by stream_id
),

wanted as (
    select
        stream_id,
        count(*) as n_calls
    from served
    group by stream_id
),

calls as (
    select
        traces.trial_id,
        case
            when wanted.n_calls is null and traces.has_actions then 0
            when wanted.n_calls = spent.n_calls then spent.tokens
        end as tokens,
        case
            when wanted.n_calls is null and traces.has_actions then 0
            when wanted.n_calls = spent.n_calls then spent.cost_usd
        end as cost_usd
    from int_oracle_traces as traces
    left join wanted on traces.stream_id = wanted.stream_id
    left join spent on traces.stream_id = spent.stream_id
)

select
    traces.trial_id,
    traces.benchmark,
    traces.agent,
    traces.task_id,
    traces.variant_id,
    traces.condition,
    case when traces.has_actions then coalesce(counted.pre_injection_actions, 0) end
        as pre_injection_actions,
    case
        when traces.has_oracle and traces.has_actions
            then coalesce(counted.wasted_actions, 0)
    end as wasted_actions,
    case
        when traces.has_oracle
            then counted.wasted_actions / counted.pre_injection_actions
    end as wasted_ratio,
    case
        when not traces.has_actions then 'unknown_actions'
        when not traces.has_oracle then 'no_oracle_trace'
        when counted.trial_id is null then 'no_actions'
    end as reason,
    calls.tokens as pre_injection_tokens,
    calls.cost_usd as pre_injection_cost_usd
from int_oracle_traces as traces
left join counted on traces.trial_id = counted.trial_id
left join calls on traces.trial_id = calls.trial_id
