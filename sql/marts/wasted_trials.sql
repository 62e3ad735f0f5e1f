-- view: wasted_trials
-- grain: trial_id
-- inputs: int_oracle_traces, int_pre_injection_calls, wasted_actions
-- outputs:
--   trial_id varchar: the trial
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   task_id varchar: id of the task
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   pre_injection_actions bigint: actions before the message
--   wasted_actions bigint: actions without counterpart
--   wasted_ratio double: wasted / pre-injection actions, 0 to 1
--   reason varchar: why something is null
--   pre_injection_tokens bigint: tokens before the message
--   pre_injection_cost_usd double: USD before the message; null if a price is unknown
-- equation: wasted_ratio = wasted / pre-injection actions
-- source: docs/metrics.md 4, wasted compute
-- notes: no pre-injection action gives a null ratio (no_actions), no `full` trial a
--     null ratio and count (no_oracle_trace).
with counted as (
    select
        trial_id,
        count(*) as pre_injection_actions,
        count(*) filter (where is_wasted) as wasted_actions
    from wasted_actions
    group by trial_id
)

select
    traces.trial_id,
    traces.benchmark,
    traces.agent,
    traces.task_id,
    traces.variant_id,
    traces.condition,
    coalesce(counted.pre_injection_actions, 0) as pre_injection_actions,
    case when traces.has_oracle then coalesce(counted.wasted_actions, 0) end
        as wasted_actions,
    case
        when traces.has_oracle
            then counted.wasted_actions / counted.pre_injection_actions
    end as wasted_ratio,
    case
        when not traces.has_oracle then 'no_oracle_trace'
        when counted.trial_id is null then 'no_actions'
    end as reason,
    calls.tokens as pre_injection_tokens,
    calls.cost_usd as pre_injection_cost_usd
from int_oracle_traces as traces
left join counted on traces.trial_id = counted.trial_id
left join int_pre_injection_calls as calls on traces.trial_id = calls.trial_id
