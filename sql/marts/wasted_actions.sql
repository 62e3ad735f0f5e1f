-- view: wasted_actions
-- grain: trial_id, action_index
-- inputs: int_oracle_traces, int_pre_injection_actions
-- outputs:
--   trial_id, action_index, benchmark, agent, task_id, variant_id, condition
--   action_name varchar: tool name; empty for a turn of text
--   action_key uhugeint: key that equal actions share
--   number_among_equals bigint: how many equal actions came so far, itself too
--   supply bigint: how many counterparts there are
--   is_wasted boolean: no counterpart left; null without full trials
-- equation: wasted iff its number among equal actions of the trial > supply of its key
-- source: docs/metrics.md 4, wasted compute
-- notes: one row per pre-injection action: those up to the action after which the
--     message was inserted, including its parallel batch; all actions if the trial
--     ended before (intention_to_treat). Null without any `full` trial of the unit.
with numbered as (
    select
        *,
        row_number() over (
            partition by trial_id, action_key order by action_index
        ) as number_among_equals
    from int_pre_injection_actions
)

select
    numbered.trial_id,
    numbered.action_index,
    traces.benchmark,
    traces.agent,
    traces.task_id,
    traces.variant_id,
    traces.condition,
    numbered.action_name,
    numbered.action_key,
    numbered.number_among_equals,
    numbered.supply,
    case
        when traces.has_oracle then numbered.number_among_equals > numbered.supply
    end as is_wasted
from numbered
inner join int_oracle_traces as traces
    on numbered.trial_id = traces.trial_id
