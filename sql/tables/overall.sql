-- view: overall
-- grain: benchmark, agent, condition, measure
-- inputs: unit_values
-- outputs:
--   benchmark, agent, condition, measure, value, low, high, n_units, n_dropped,
--   n_clusters, n_trials, n_missing, method, reason
-- equation: means over units; gain = value(condition) - value(underspecified), paired
-- source: docs/metrics.md 3 and 6 [LHAW table 3; also pass^k and injections]
-- notes: units are tasks for full, and variants otherwise. Gains and measures of asking
--     are in the rows of the condition that gains or may ask. pass@k, pass^k and
--     progress are fractions. If intention_to_treat, a trial that ended before its
--     injection counts under the condition that was planned.
with told as (
    select *
    from unit_values
    where unit_kind = 'variant' and condition like 'inject\_%' escape '\'
),

told_gains as (
    select
        told.* replace (
            told.measure || '_gain' as measure,
            told.numerator - untold.numerator as numerator,
            case
                when untold.unit_id is null then 'one_arm_only'
                else coalesce(told.reason, untold.reason)
            end as reason,
            concat_ws('|', told.cell_id, untold.cell_id) as cell_id,
            told.n_trials + coalesce(untold.n_trials, 0) as n_trials,
            told.n_missing + coalesce(untold.n_missing, 0) as n_missing
        )
    from told
    left join unit_values as untold
        on
            told.benchmark = untold.benchmark
            and told.agent = untold.agent
            and told.unit_id = untold.unit_id
            and told.measure = untold.measure
            and untold.unit_kind = 'variant'
            and untold.condition = 'underspecified'
    where told.measure <> 'pass_hat_k'
),

listed as (
    select *
    from unit_values
    where
        (
            unit_kind = 'task'
            and condition = 'full'
        )
        or (
            unit_kind = 'variant'
            and condition in ('underspecified', 'ask_user')
            and measure <> 'questions_per_trial'
        )
    union all by name
    select * from told
    union all by name
    select * from told_gains
),

estimated as (
    select
        benchmark,
        agent,
        condition,
        measure,
        table_estimate(
            measure,
            numerator,
            denominator,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        ) as estimate
    from listed
    group by benchmark, agent, condition, measure
)

select
    benchmark,
    agent,
    condition,
    measure,
    estimate.*
from estimated
