-- view: generality
-- grain: benchmark, strategy, persona, condition, measure
-- inputs: int_agent_arms, unit_values
-- outputs:
--   benchmark
--   agent varchar: all
--   strategy, persona
--   n_agents bigint: agents with a value
--   condition, measure, value, low, high, n_units, n_dropped, n_clusters, n_trials,
--   n_missing, method, reason
-- equation: mean over tasks of the mean over agents of the mean of pass@k over an
--     agent's units; gain likewise
-- source: docs/metrics.md 3, 5 and 6 [LHAW table 13]; parameter `pooled`
-- notes: the values are averages over models, for comparing benchmarks. Agents with a
--     strategy or a persona are averaged separately. Units are tasks under full, and
--     variants otherwise. n_units counts (unit, agent) pairs. With `pooled = units` a
--     value is the mean of the agents' means, as in the paper.
with met as (
    select
        units.benchmark,
        units.agent as own_agent,
        arms.strategy,
        arms.persona,
        units.condition,
        units.measure,
        units.task_id,
        units.numerator as unit_value,
        units.reason,
        units.cell_id,
        units.n_trials,
        units.n_missing,
        units.cluster_id
    from unit_values as units
    inner join int_agent_arms as arms
        on units.benchmark = arms.benchmark and units.agent = arms.agent
    where
        (
            (units.unit_kind = 'task' and units.condition = 'full')
            or (
                units.unit_kind = 'variant'
                and units.condition in ('underspecified', 'ask_user')
            )
        )
        and units.measure in (
            'pass_at_1', 'pass_at_1_gain', 'pass_at_k', 'pass_at_k_gain'
        )
),

weighted as (
    select
        *,
        agent_weight(
            'all',
            own_agent,
            task_id,
            unit_value,
            row(benchmark, strategy, persona, condition, measure)
        )
        / case getvariable('pooled')
            when 'units' then count(unit_value) over own_units else 1
        end as weight
    from met
    window own_units as (
        partition by benchmark, own_agent, condition, measure
    )
)

select
    benchmark,
    'all' as agent,
    strategy,
    persona,
    count(distinct own_agent) filter (where unit_value is not null) as n_agents,
    condition,
    measure,
    unnest(
        table_estimate(
            measure,
            weight * unit_value,
            weight,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        )
    )
from weighted
group by benchmark, strategy, persona, condition, measure
