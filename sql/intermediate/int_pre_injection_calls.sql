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
    select distinct
        traces.trial_id,
        traces.stream_id,
        actions.model_call_id
    from int_oracle_traces as traces
    inner join stg_actions_started as actions
        on
            traces.stream_id = actions.stream_id
            and traces.last_pre_injection_action >= actions.action_index
)

select
    served.trial_id,
    sum(replies.input_tokens + replies.output_tokens)::bigint as tokens,
    case
        when count(*) = count(replies.cost_usd)
            then sum(replies.cost_usd order by replies.call_id)
    end as cost_usd
from served
inner join stg_models_responded as replies
    on
        served.stream_id = replies.stream_id
        and served.model_call_id = replies.call_id
group by served.trial_id
