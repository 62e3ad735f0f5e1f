-- view: over_asking
-- grain: benchmark, agent, condition, measure
-- inputs: unit_values
-- outputs:
--   benchmark, agent, condition, measure, value, low, high, n_units, n_dropped,
--   n_clusters, n_trials, n_missing, method, reason
-- equation: ask_pct = 100 * trials that asked / trials; questions_per_trial = questions
--     / trials; pass_at_k_difference = pass@k(full_ask_user) - pass@k(full), paired
-- source: docs/metrics.md 3 and 6, over-asking (ours)
-- notes: units are tasks. The full prompt lacks nothing, so every question is
--     unnecessary. Only agents that ran full_ask_user have rows. A task without a value
--     in one arm is dropped from the difference.
with asked as (
    select *
    from unit_values
    where
        unit_kind = 'task'
        and condition in ('full', 'full_ask_user')
        and measure in ('pass_at_1', 'pass_at_k', 'ask_pct', 'questions_per_trial')
),

pairs as (
    select
        benchmark,
        agent,
        measure || '_difference' as measure,
        any_value(numerator) filter (where condition = 'full_ask_user')
        - any_value(numerator) filter (where condition = 'full') as numerator,
        1.0::double as denominator,
        case
            when count(*) = 1 then 'one_arm_only'
            else coalesce(
                any_value(reason) filter (where condition = 'full_ask_user'),
                any_value(reason) filter (where condition = 'full')
            )
        end as reason,
        string_agg(cell_id, '|' order by cell_id) as cell_id,
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing,
        any_value(cluster_id) as cluster_id
    from asked
    where measure in ('pass_at_1', 'pass_at_k')
    group by benchmark, agent, unit_id, measure
    qualify
        bool_or(bool_or(condition = 'full_ask_user')) over (
            partition by benchmark, agent
        )
),

listed as (
    select
        benchmark,
        agent,
        measure,
        numerator,
        denominator,
        reason,
        cell_id,
        n_trials,
        n_missing,
        cluster_id
    from asked
    where condition = 'full_ask_user'
    union all by name
    select * from pairs
)

select
    benchmark,
    agent,
    'full_ask_user' as condition,
    measure,
    unnest(
        table_estimate(
            replace(measure, '_difference', '_gain'),
            numerator,
            denominator,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        )
    )
from listed
group by benchmark, agent, measure
