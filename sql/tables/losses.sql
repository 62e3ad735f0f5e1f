-- view: losses
-- grain: benchmark, agent, condition, measure
-- inputs: int_paired_values
-- outputs:
--   benchmark, agent
--   condition varchar: underspecified; or ask_user or inject_p for the remaining loss
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing
--   method, reason
--   p_value double: test of a mean loss of 0, two-sided
--   p_holm double: the same, corrected within the condition and measure
--   worst, best, worst_low, best_high
-- equation: loss = value(full) - value(condition) of the same variant, mean over
--     variants; the full prompt is that of the variant's task
-- source: docs/metrics.md 3, 5 and 6, losses (ours); parameter `permutations`
-- notes: the rows show what missing information costs. A variant without a value in one
--     arm is dropped (one_arm_only, or the reason of that arm). An agent without full
--     trials has no loss. n_trials counts the trials of both arms; full trials that
--     several variants share count once. Because trials are shared, p_value is the
--     larger p of two tests: sign flips of whole tasks, and permutations of trials
--     within tasks. A Holm family consists of all benchmarks and agents of one
--     condition and measure.
with pairs as (
    select
        *,
        base_numerator - numerator as loss,
        base_least - most as least_loss,
        base_most - least as most_loss,
        bool_or(n_missing + coalesce(n_base_missing, 0) > 0) over (
            partition by benchmark, agent, condition, measure
        ) as is_incomplete
    from int_paired_values
    where
        base_condition = 'full'
        and (
            condition in ('underspecified', 'ask_user')
            or condition like 'inject\_%' escape '\'
        )
        and measure in ('pass_at_1', 'pass_at_k', 'checkpoint_progress')
    qualify bool_or(has_base) over (partition by benchmark, agent)
),

estimated as (
    select
        benchmark,
        agent,
        condition,
        measure || '_loss' as measure,
        shared_estimate(
            'loss',
            loss,
            1,
            base_numerator,
            n_base_trials / if(measure = 'pass_at_k', getvariable('k'), 1),
            n_trials / if(measure = 'pass_at_k', getvariable('k'), 1),
            min(pair_reason),
            cluster_id
        ) as estimate,
        missing_bounds(
            'loss', least_loss, most_loss, 1, is_incomplete, cluster_id
        ) as bounds,
        sum_once(cell_id, case when loss is not null then n_trials end)
            as n_own_trials,
        sum_once(cell_id, n_missing) as n_own_missing,
        sum_once(
            base_cell_id, case when loss is not null then n_base_trials end
        ) as n_base_trials,
        sum_once(base_cell_id, n_base_missing) as n_base_missing
    from pairs
    group by benchmark, agent, condition, measure
)

select
    benchmark,
    agent,
    condition,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    n_own_trials + n_base_trials as n_trials,
    n_own_missing + n_base_missing as n_missing,
    estimate.method,
    estimate.reason,
    significant(estimate.p_value) as p_value,
    significant(
        holm(
            estimate.p_value,
            list(estimate.p_value) over (partition by condition, measure)
        )
    ) as p_holm,
    unnest(bounds_beside(estimate, bounds, n_own_missing + n_base_missing))
from estimated
