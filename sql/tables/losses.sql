-- view: losses
-- grain: benchmark, agent, condition, measure
-- inputs: unit_values
-- outputs:
--   benchmark, agent
--   condition varchar: underspecified, or what is left under ask_user and inject_p
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing
--   method, reason
--   p_value double: of no mean loss, two-sided
--   p_holm double: the same, corrected within the condition and measure
-- equation: loss = value(full) - value(condition) of the same variant, mean over
--     variants; the full prompt is that of the variant's task
-- source: docs/metrics.md 3, 5 and 6, losses (ours); parameter `permutations`
-- notes: what missing information costs. A variant without a value in one arm is
--     dropped (one_arm_only, or the reason of that arm). An agent without full has no
--     loss. n_trials counts the trials of both arms; those of a full prompt that
--     several variants share count once. As they share it, the test of no loss leaves
--     room for one more task, like the interval. A Holm family consists of all
--     benchmarks and agents of one condition and measure.
with pairs as (
    select
        short.benchmark,
        short.agent,
        short.condition,
        short.measure || '_loss' as measure,
        complete.numerator - short.numerator as numerator,
        case
            when complete.unit_id is null then 'one_arm_only'
            else coalesce(short.reason, complete.reason)
        end as reason,
        short.cell_id,
        short.n_trials,
        short.n_missing,
        complete.cell_id as complete_cell_id,
        complete.n_trials as n_complete_trials,
        complete.n_missing as n_complete_missing,
        short.cluster_id
    from unit_values as short
    left join unit_values as complete
        on
            short.benchmark = complete.benchmark
            and short.agent = complete.agent
            and short.unit_id = complete.unit_id
            and short.measure = complete.measure
            and complete.unit_kind = 'variant'
            and complete.condition = 'full'
    where
        short.unit_kind = 'variant'
        and (
            short.condition in ('underspecified', 'ask_user')
            or short.condition like 'inject\_%' escape '\'
        )
        and short.measure in ('pass_at_1', 'pass_at_k', 'checkpoint_progress')
    qualify
        bool_or(complete.unit_id is not null) over (
            partition by short.benchmark, short.agent
        )
),

estimated as (
    select
        benchmark,
        agent,
        condition,
        measure,
        unit_estimate(
            measure_kind(measure), numerator, 1, min(reason), cluster_id
        ) as estimate,
        sum_once(cell_id, case when numerator is not null then n_trials end)
            as n_own_trials,
        sum_once(cell_id, n_missing) as n_own_missing,
        sum_once(
            complete_cell_id, case when numerator is not null then n_complete_trials end
        ) as n_complete_trials,
        sum_once(complete_cell_id, n_complete_missing) as n_complete_missing
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
    n_own_trials + n_complete_trials as n_trials,
    n_own_missing + n_complete_missing as n_missing,
    estimate.method,
    estimate.reason,
    significant(estimate.p_value) as p_value,
    significant(
        holm(
            estimate.p_value,
            list(estimate.p_value) over (partition by condition, measure)
        )
    ) as p_holm
from estimated
