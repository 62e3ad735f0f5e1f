-- view: gain_tests
-- grain: split, level, benchmark, agent, measure
-- inputs: int_missing_bounds, int_variant_dimensions, pass_at_k, unit_values
-- outputs:
--   split varchar: overall, ambiguity_class or dimension
--   level varchar: the class or dimension, or all
--   benchmark, agent, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing
--   method varchar: sign_flips
--   reason
--   p_value double: test of a mean gain of 0, two-sided
--   p_holm double: the same, corrected within the split and measure
--   noise_floor double: standard deviation of the gain if asking had no effect
--   worst, best, worst_low, best_high
-- equation: p: sign flips of whole clusters; Holm: max over smaller p of p * (m - rank
--     + 1); noise floor: standard deviation of the mean gain if both arms are drawn
--     from their pooled trials; variance of a union = mean of squares - square of the
--     mean
-- source: docs/metrics.md 3 and 5; parameters `per`, `permutations`
-- notes: the gains are those of ask_user over underspecified, as in overall, by_class
--     and by_dimension_*. A variant counts in overall, in its class, and in each of its
--     dimensions. The interval excludes 0 if and only if p_value is below 1 -
--     confidence. A Holm family consists of all benchmarks and agents of one split and
--     measure. lhaw-record power says how many tasks or trials would show a gain.
with counted as (
    select
        gains.benchmark,
        gains.agent,
        gains.unit_id as variant_id,
        gains.variant_digest,
        replace(gains.measure, '_gain', '') as measure,
        gains.ambiguity_class,
        gains.cluster_id,
        gains.numerator as gain,
        gains.reason,
        asked_bounds.least - unasked_bounds.most as least,
        asked_bounds.most - unasked_bounds.least as most,
        gains.n_trials,
        gains.n_missing,
        gains.cell_id as pair_id,
        asked.n_trials as n_asked,
        unasked.n_trials as n_unasked,
        asked.n_success + unasked.n_success as n_success,
        asked.n_trials / (asked.n_trials + unasked.n_trials) as share_asked,
        asked.checkpoint_progress as asked_mean,
        unasked.checkpoint_progress as unasked_mean,
        asked.progress_variance as asked_variance,
        unasked.progress_variance as unasked_variance
    from unit_values as gains
    left join pass_at_k as asked
        on
            gains.benchmark = asked.benchmark
            and gains.agent = asked.agent
            and gains.unit_id = asked.unit_id
            and asked.unit_kind = 'variant'
            and asked.condition = 'ask_user'
    left join pass_at_k as unasked
        on
            gains.benchmark = unasked.benchmark
            and gains.agent = unasked.agent
            and gains.unit_id = unasked.unit_id
            and unasked.unit_kind = 'variant'
            and unasked.condition = 'underspecified'
    left join int_missing_bounds as asked_bounds
        on
            concat_ws(
                '|', gains.benchmark, gains.agent, 'variant', gains.unit_id, 'ask_user'
            ) = asked_bounds.cell_id
            and gains.measure = asked_bounds.measure || '_gain'
    left join int_missing_bounds as unasked_bounds
        on
            concat_ws(
                '|',
                gains.benchmark,
                gains.agent,
                'variant',
                gains.unit_id,
                'underspecified'
            ) = unasked_bounds.cell_id
            and gains.measure = unasked_bounds.measure || '_gain'
    where gains.measure like '%\_gain' escape '\'
),

pooled as (
    select
        *,
        share_asked * (asked_variance + asked_mean ** 2)
        + (1 - share_asked) * (unasked_variance + unasked_mean ** 2)
        - (share_asked * asked_mean + (1 - share_asked) * unasked_mean) ** 2
            as variance_of_both
    from counted
),

placed as (
    select
        *,
        'overall' as split,
        'all' as level,
        1 as position
    from pooled
    union all
    select
        *,
        'ambiguity_class' as split,
        ambiguity_class as level,
        1 as position
    from pooled
    where ambiguity_class is not null
    union all
    select
        pooled.*,
        'dimension' as split,
        dimensions.dimension as level,
        dimensions.position
    from pooled
    inner join int_variant_dimensions as dimensions
        on pooled.variant_digest = dimensions.variant_digest
),

marked as (
    select
        *,
        bool_or(n_missing > 0) over (
            partition by split, level, benchmark, agent, measure
        ) as is_incomplete
    from placed
),

estimated as (
    select
        split,
        level,
        benchmark,
        agent,
        measure || '_gain' as measure,
        gain_estimate(gain, reason, cluster_id) as estimate,
        missing_bounds('gain', least, most, 1, is_incomplete, cluster_id) as bounds,
        sum_once(pair_id, case when gain is not null then n_trials end) as n_trials,
        sum_once(pair_id, n_missing) as n_missing,
        case
            when measure <> 'checkpoint_progress'
                then pass_noise_floor(
                    list(n_asked order by pair_id, position)
                    filter (where gain is not null),
                    list(n_unasked order by pair_id, position)
                    filter (where gain is not null),
                    list(n_success order by pair_id, position)
                    filter (where gain is not null),
                    case measure when 'pass_at_1' then 1 else getvariable('k') end
                )
            else progress_noise_floor(
                list(n_asked order by pair_id, position)
                filter (where gain is not null),
                list(n_unasked order by pair_id, position)
                filter (where gain is not null),
                list(greatest(variance_of_both, 0) order by pair_id, position)
                filter (where gain is not null)
            )
        end as noise_floor
    from marked
    group by split, level, benchmark, agent, measure
)

select
    split,
    level,
    benchmark,
    agent,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason,
    significant(estimate.p_value) as p_value,
    significant(
        holm(
            estimate.p_value,
            list(estimate.p_value) over (partition by split, measure)
        )
    ) as p_holm,
    round(noise_floor, 6) as noise_floor,
    unnest(bounds_beside(estimate, bounds, n_missing))
from estimated
