-- view: experiment_setup
-- grain: benchmark, agent, measure
-- inputs: int_agent_arms, int_candidates, int_group_estimates, int_trials_evaluated
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   dimensions varchar: dimensions that occur among its variants, in order
--   measure varchar: what is measured
--   value double: the mean, ratio or count
--   low double: lower bound
--   high double: upper bound
--   n_units bigint: units with a value
--   n_dropped bigint: units without a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   method varchar: wilson, percentile or bca
--   reason varchar: why something is null
-- equation: counts; budgets: smallest, largest and mean B over units
-- source: docs/metrics.md 4 and 6 [Ask Early table 1]
-- notes: evaluated trials but those of controls. A unit of the budgets is (agent; task
--     or variant, as the oracle scope says) and has the B that its injected trials were
--     given. Extremes have no interval (reason extreme). Without injected trials there
--     is no budget (reason not_run).
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
    where prompt_state is distinct from 'control'
    group by benchmark, agent, condition, task_id, variant_id
),

cell_sets as (
    select
        cells.benchmark,
        unnest(['all', cells.agent]) as agent,
        cells.agent as own_agent,
        arms.model,
        cells.task_id,
        cells.variant_id,
        string_split(candidates.dimensions, '+') as dimensions,
        cells.n_trials,
        cells.n_missing
    from cells
    inner join int_agent_arms as arms
        on cells.benchmark = arms.benchmark and cells.agent = arms.agent
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
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from cell_sets
    group by benchmark, agent
),

measured as (
    select
        sets.benchmark,
        sets.agent,
        sets.dimensions,
        budgets.estimate,
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
    left join int_group_estimates as budgets
        on
            budgets.table_name = 'experiment_setup'
            and sets.benchmark = budgets.benchmark
            and sets.agent = budgets.agent
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
