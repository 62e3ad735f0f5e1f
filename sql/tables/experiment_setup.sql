-- view: experiment_setup
-- grain: benchmark, agent, measure
-- inputs: int_agent_arms, int_candidates, int_task_clusters, int_trials_evaluated
-- outputs:
--   benchmark, agent
--   dimensions varchar: dimensions of the removed segments, in order
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing,
--   method, reason
-- equation: counts; budgets: smallest and largest B of the units, and the mean B (for
--     one agent over its units, for agent all over tasks of the mean over agents)
-- source: docs/metrics.md 4 and 6 [Ask Early table 1]; parameter `pooled`
-- notes: the rows describe the evaluated trials, except those of controls. The unit of
--     a budget is an agent with a task or variant, depending on the oracle scope. B is
--     the budget that the unit's injected trials used. n_units counts units, whatever
--     `pooled` is. Extremes have no interval (reason extreme). Without injected trials
--     there is no budget (reason not_run).
with cells as (
    select
        benchmark,
        agent,
        condition,
        task_id,
        variant_id,
        any_value(variant_digest) as variant_digest,
        count(*) filter (where trial_state = 'valid') as n_trials,
        greatest(coalesce(max(trials_per_cell), 0), count(*))
        - count(*) filter (where trial_state in ('valid', 'running')) as n_missing
    from int_trials_evaluated
    where coalesce(prompt_state not in ('control', 'faulty'), true)
    group by benchmark, agent, condition, task_id, variant_id
),

cell_sets as (
    select
        cells.benchmark,
        unnest(['all', cells.agent]) as agent,
        cells.agent as own_agent,
        arms.model,
        cells.task_id,
        clusters.cluster_id,
        cells.variant_id,
        string_split(candidates.dimensions, '+') as dimensions,
        cells.n_trials,
        cells.n_missing
    from cells
    inner join int_agent_arms as arms
        on cells.benchmark = arms.benchmark and cells.agent = arms.agent
    inner join int_task_clusters as clusters
        on
            cells.benchmark = clusters.benchmark
            and cells.task_id = clusters.task_id
    left join int_candidates as candidates
        on cells.variant_digest = candidates.variant_digest
),

sets as (
    select
        benchmark,
        agent,
        flatten(list(distinct dimensions)) as dimensions,
        count(distinct task_id) as n_tasks,
        count(distinct variant_id) as n_variants,
        count(distinct own_agent) as n_agents,
        count(distinct model) as n_models,
        count(distinct cluster_id) as n_clusters,
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from cell_sets
    group by benchmark, agent
),

budget_units as (
    select
        benchmark,
        agent,
        any_value(task_id) as task_id,
        max(budget_actions) as budget_actions
    from int_trials_evaluated
    where budget_actions is not null
    group by
        benchmark,
        agent,
        oracle_scope,
        case oracle_scope when 'task' then task_id else variant_id end
),

pooled_budgets as (
    select
        units.benchmark,
        unnest(['all', units.agent]) as agent,
        units.agent as own_agent,
        units.task_id,
        units.budget_actions,
        clusters.cluster_id
    from budget_units as units
    inner join int_task_clusters as clusters
        on
            units.benchmark = clusters.benchmark
            and units.task_id = clusters.task_id
),

weighted_budgets as (
    select
        *,
        agent_weight(
            agent, own_agent, task_id, budget_actions, row(benchmark, agent)
        ) as weight
    from pooled_budgets
),

budgets as (
    select
        benchmark,
        agent,
        unit_estimate(
            'amount',
            weight * budget_actions,
            weight,
            min(null::varchar),
            cluster_id
        ) as estimate,
        min(budget_actions) as least,
        max(budget_actions) as most
    from weighted_budgets
    group by benchmark, agent
),

measured as (
    select
        sets.benchmark,
        sets.agent,
        sets.dimensions,
        budgets.estimate,
        sets.n_clusters,
        sets.n_trials,
        sets.n_missing,
        unnest(
            [
                { 'measure': 'tasks', 'value': sets.n_tasks },
                { 'measure': 'variants', 'value': sets.n_variants },
                { 'measure': 'agents', 'value': sets.n_agents },
                { 'measure': 'models', 'value': sets.n_models },
                { 'measure': 'trials', 'value': sets.n_trials },
                { 'measure': 'min_budget_actions', 'value': budgets.least },
                { 'measure': 'mean_budget_actions', 'value': null },
                { 'measure': 'max_budget_actions', 'value': budgets.most }
            ]
        ) as counted
    from sets
    left join budgets
        on sets.benchmark = budgets.benchmark and sets.agent = budgets.agent
)

select
    benchmark,
    agent,
    array_to_string(
        list_filter(
            ['goal', 'constraint', 'input', 'context'],
            lambda name: list_contains(dimensions, name)
        ),
        ', '
    ) as dimensions,
    counted.measure,
    case
        when counted.measure = 'mean_budget_actions' then estimate.value
        else counted.value
    end as value,
    case when counted.measure = 'mean_budget_actions' then estimate.low end as low,
    case when counted.measure = 'mean_budget_actions' then estimate.high end as high,
    case
        when counted.measure like '%_budget_actions' then coalesce(estimate.n_units, 0)
        else counted.value::bigint
    end as n_units,
    0::bigint as n_dropped,
    case
        when counted.measure like '%_budget_actions'
            then coalesce(estimate.n_clusters, 0)
        else n_clusters
    end as n_clusters,
    n_trials,
    n_missing,
    case when counted.measure = 'mean_budget_actions' then estimate.method end
        as method,
    case
        when counted.measure not like '%_budget_actions' then 'count'
        when estimate is null then 'not_run'
        when counted.measure = 'mean_budget_actions' then estimate.reason
        else 'extreme'
    end as reason
from measured
where agent = 'all' or counted.measure not in ('agents', 'models')
