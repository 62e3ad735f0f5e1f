-- view: int_budget_units
-- grain: table_name, benchmark, agent, own_agent, group_name, subgroup_name, condition,
--     measure, unit_id
-- inputs: int_clusters, int_trials_evaluated
-- outputs:
--   table_name varchar: table that the row is for
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   own_agent varchar: agent that did it, where agent is all
--   group_name varchar: first key of the row in its table; all
--   subgroup_name varchar: second key of the row in its table; all
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   unit_id varchar: task or variant id
--   numerator double: above the line
--   denominator double: below the line; 1 for a mean
--   is_binary boolean: n = k, so pass@k is 0 or 1
--   reason varchar: why something is null
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
-- equation: none
-- source: docs/metrics.md 4, budget
-- notes: the action budget of each unit (agent; task or variant, as the oracle scope
--     says), as its injected trials were given it; agent all pools agents.
with cells as (
    select
        benchmark,
        agent,
        oracle_scope,
        case oracle_scope when 'task' then task_id else variant_id end as unit_id,
        any_value(task_id) as task_id,
        max(budget_actions) as budget_actions,
        count(*) filter (where trial_state = 'valid') as n_trials
    from int_trials_evaluated
    where budget_actions is not null
    group by benchmark, agent, oracle_scope, unit_id
),

placed as (
    select
        *,
        case
            when bool_or(oracle_scope = 'task') over (partition by benchmark)
                then 'task'
            else 'variant'
        end as cluster_kind
    from cells
)

select
    'experiment_setup' as table_name,
    placed.benchmark,
    unnest(['all', placed.agent]) as agent,
    placed.agent as own_agent,
    'all' as group_name,
    'all' as subgroup_name,
    'full' as condition,
    'mean_budget_actions' as measure,
    placed.unit_id,
    placed.budget_actions::double as numerator,
    1.0::double as denominator,
    false as is_binary,
    null::varchar as reason,
    placed.n_trials,
    0::bigint as n_missing,
    clusters.cluster_index,
    clusters.cluster_count
from placed
inner join int_clusters as clusters
    on
        placed.benchmark = clusters.benchmark
        and placed.cluster_kind = clusters.cluster_kind
        and clusters.cluster_id = case placed.cluster_kind
            when 'task' then placed.task_id
            else placed.unit_id
        end
