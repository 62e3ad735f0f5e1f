-- macro: agent_weight
-- inputs: the agent of a row; the agent, the task and the value of its unit; and the
--     columns that make a cell, as one row
-- outputs: double, null without a value in the unit
-- equation: of agent all, 1 / (agents that have a value in the cell and the task *
--     units of the agent that have one there); of one agent, 1
-- source: docs/metrics.md 5, agents pooled; parameter `pooled`
-- notes: a mean with these weights is the mean of agents within a task, then over
--     tasks. With `pooled = units` every unit weighs the same.
create or replace macro agent_weight(
    agent, own_agent, task_key, unit_value, cell
) as case
    when unit_value is null then null
    when agent <> 'all' or getvariable('pooled') = 'units' then 1.0
    else 1.0 / (
        count(unit_value) over (partition by hash(cell, task_key, own_agent))
        * count(distinct case when unit_value is not null then hash(own_agent) end)
            over (partition by hash(cell, task_key))
    )
end::double
