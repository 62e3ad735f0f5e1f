-- view: archetypes
-- grain: benchmark, agent
-- inputs: int_agent_arms, unit_values
-- outputs:
--   benchmark, agent, model
--   archetype varchar: over-clarifier, balanced or under-clarifier
--   is_archetype_clear boolean: the whole interval is in the archetype's range; null
--       without an interval
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing,
--   method, reason
-- equation: over-clarifier: ask_pct >= over_clarifier_pct; under-clarifier: ask_pct <
--     under_clarifier_pct; else balanced
-- source: docs/metrics.md 3 and 6 [Ask Early table 2]; parameters `over_clarifier_pct`,
--     `under_clarifier_pct`
-- notes: the value is ask_pct of overall: the percentage of valid ask_user trials with
--     a question. The archetype is null if there are no valid ask_user trials.
with rates as (
    select
        units.benchmark,
        units.agent,
        any_value(arms.model) as model,
        units.measure,
        table_estimate(
            units.measure,
            units.numerator,
            units.denominator,
            units.reason,
            units.cluster_id,
            units.cell_id,
            units.n_trials,
            units.n_missing
        ) as estimate
    from unit_values as units
    inner join int_agent_arms as arms
        on units.benchmark = arms.benchmark and units.agent = arms.agent
    where
        units.unit_kind = 'variant'
        and units.condition = 'ask_user'
        and units.measure = 'ask_pct'
    group by units.benchmark, units.agent, units.measure
),

named as (
    select
        *,
        list_transform(
            [estimate.value, estimate.low, estimate.high],
            lambda pct: case
                when pct >= getvariable('over_clarifier_pct') then 'over-clarifier'
                when pct < getvariable('under_clarifier_pct') then 'under-clarifier'
                when pct is not null then 'balanced'
            end
        ) as archetypes
    from rates
)

select
    benchmark,
    agent,
    model,
    archetypes[1] as archetype,
    archetypes[2] = archetypes[3] as is_archetype_clear,
    measure,
    estimate.*
from named
