-- view: by_strategy
-- grain: benchmark, ambiguity_class, strategy, agent, condition, measure
-- inputs: int_agent_arms, unit_values
-- outputs:
--   benchmark
--   ambiguity_class varchar: outcome-critical, divergent, benign, or all
--   strategy, agent, model, persona, condition, measure, value, low, high, n_units,
--   n_dropped, n_clusters, n_trials, n_missing, method, reason
-- equation: means over variants; gain = value(ask_user) - value(underspecified) of the
--     same agent, paired; asking as in overall
-- source: docs/metrics.md 3 and 6 [LHAW table 10]
-- notes: the agents differ only in their strategy (int_agent_arms). Without strategies
--     the table has no rows. Each strategy is compared with its own underspecified arm.
--     Class all includes variants without a class.
with met as (
    select
        units.*,
        arms.strategy,
        arms.model,
        arms.persona,
        unnest(['all', units.ambiguity_class]) as class
    from unit_values as units
    inner join int_agent_arms as arms
        on units.benchmark = arms.benchmark and units.agent = arms.agent
    where
        arms.has_strategies
        and units.unit_kind = 'variant'
        and units.condition in ('underspecified', 'ask_user')
        and units.measure <> 'pass_hat_k'
        and units.measure not like '%\_per\_question%' escape '\'
        and units.measure <> 'questions_per_trial'
)

select
    benchmark,
    class as ambiguity_class,
    strategy,
    agent,
    model,
    persona,
    condition,
    measure,
    unnest(
        table_estimate(
            measure,
            numerator,
            denominator,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        )
    )
from met
where
    class is not null
group by benchmark, class, strategy, agent, model, persona, condition, measure
