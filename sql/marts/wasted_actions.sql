-- view: wasted_actions
-- grain: trial_id, action_index
-- inputs: int_oracle_traces
-- outputs:
--   trial_id, action_index, benchmark, agent, task_id, variant_id, condition
--   action_name varchar: tool name; empty for a turn of text
--   action_key ubigint: key that equal actions share
--   number_among_equals bigint: number of equal actions up to and including this one
--   supply bigint: number of counterparts
--   is_wasted boolean: there is no counterpart left; null without full trials
-- equation: wasted iff its number among equal actions of the trial > supply of its key
-- source: docs/metrics.md 4, wasted compute
-- notes: one row is one pre-injection action. These are the actions up to the last
--     action before the message, including its parallel batch. If the trial ended
--     before the message (intention_to_treat), they are all actions. is_wasted is null
--     without any `full` trial of the unit.
with listed as (
    select
        *,
        unnest(actions) as action
    from int_oracle_traces
),

numbered as (
    select
        *,
        row_number() over (
            partition by trial_id, action.action_key order by action.action_index
        ) as number_among_equals
    from listed
)

select
    trial_id,
    action.action_index,
    benchmark,
    agent,
    task_id,
    variant_id,
    condition,
    action.action_name,
    action.action_key,
    number_among_equals,
    action.supply,
    case when has_oracle then number_among_equals > action.supply end as is_wasted
from numbered
