-- view: point_of_no_return
-- grain: benchmark, dimension, ambiguity_class, agent, timing, measure
-- inputs: int_injection_gains, int_pools, int_variant_dimensions
-- outputs:
--   benchmark varchar: all; the benchmarks are pooled
--   dimension varchar: goal, constraint, input or context
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   agent varchar: all; the agents are pooled
--   timing varchar: p of inject_p; all for the point itself
--   measure varchar: injection_gain, or point_of_no_return_pct
--   value double: the mean gain; the latest p with a significant one
--   low double: lower bound
--   high double: upper bound
--   n_units bigint: units with a value
--   n_dropped bigint: units without a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   method varchar: wilson, percentile or bca
--   reason varchar: why value or interval is null
--   p_value double: of no gain, one-sided
--   p_bonferroni double: the same times five, at most 1
--   is_significant boolean: p_bonferroni is at most 1 - confidence
--   test varchar: exact or monte_carlo
--   p_reason varchar: why p_value is null
-- equation: d = pass@k(inject_p) - pass@k(underspecified) of a unit; p-value of mean d
--     under free signs of the units; point = the latest p with 5 * p-value <= 1 -
--     confidence
-- source: docs/metrics.md 4, point of no return [Ask Early table 8, figure 12];
--     parameters `confidence`, `per`, `permutations`, `seed`, `voi_cases`
-- notes: units are (variant, agent) of every benchmark with a class. All sign choices
--     where there are at most `permutations`, else so many drawn ones and (1 + #) / (1
--     + drawn). Fewer than 6 units: no p-value (too_few_units). The latest significant
--     p counts even if an earlier one is not; without any the point is null
--     (not_significant). The point is one of five percentages (one_of_five): how sure
--     it is, the five p-values say.
with attributed as (
    select
        dimensions.dimension,
        gains.ambiguity_class,
        gains.inject_percent,
        gains.gain,
        gains.reason,
        int_pools.first_index + gains.cluster_index as cluster_index,
        int_pools.cluster_count,
        gains.cell_id,
        gains.unit_id,
        gains.n_trials,
        gains.n_missing,
        gains.n_baseline_trials,
        gains.n_baseline_missing,
        dense_rank() over (
            order by
                gains.benchmark, gains.agent, gains.variant_id, dimensions.position
        ) as unit_number
    from int_injection_gains as gains
    inner join int_pools
        on gains.benchmark = int_pools.benchmark and int_pools.pool = 'all'
    inner join int_variant_dimensions as dimensions
        on gains.variant_digest = dimensions.variant_digest
    where gains.inject_percent is not null and gains.ambiguity_class is not null
),

estimated as (
    select
        dimension,
        ambiguity_class,
        inject_percent,
        mean_estimate(gain, reason, cluster_index, cluster_count, false) as estimate,
        case
            when count(gain) >= 6
                then sign_flips(
                    list(gain) filter (where gain is not null),
                    list(unit_number) filter (where gain is not null),
                    getvariable('permutations'),
                    getvariable('seed'),
                    false
                )
        end as tested,
        sum_once(
            cell_id,
            case when gain is not null then n_trials + n_baseline_trials end
        ) as n_trials,
        sum_once(cell_id, n_missing + n_baseline_missing) as n_missing
    from attributed
    group by dimension, ambiguity_class, inject_percent
),

corrected as (
    select
        *,
        case when tested is not null then least(1, 5 * tested.p_value) end
            as p_bonferroni,
        round(5 * tested.p_value, 9)
        <= round(1 - getvariable('confidence'), 9) as is_significant
    from estimated
),

points as (
    select
        dimension,
        ambiguity_class,
        max(inject_percent) filter (where is_significant) as point,
        max(estimate.n_units) as n_units,
        max(estimate.n_dropped) as n_dropped,
        count(tested) as n_tested
    from corrected
    group by dimension, ambiguity_class
),

counted as (
    select
        dimension,
        ambiguity_class,
        sum_once(cell_id, case when gain is not null then n_trials end)
        + sum_once(unit_id, case when gain is not null then n_baseline_trials end)
            as n_trials,
        sum_once(cell_id, n_missing)
        + sum_once(unit_id, n_baseline_missing) as n_missing
    from attributed
    group by dimension, ambiguity_class
)

select
    'all' as benchmark,
    dimension,
    ambiguity_class,
    'all' as agent,
    inject_percent::varchar as timing,
    'injection_gain' as measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason,
    significant(tested.p_value) as p_value,
    significant(p_bonferroni) as p_bonferroni,
    is_significant,
    tested.method as test,
    case when tested is null then 'too_few_units' end as p_reason
from corrected
union all
select
    'all' as benchmark,
    points.dimension,
    points.ambiguity_class,
    'all' as agent,
    'all' as timing,
    'point_of_no_return_pct' as measure,
    points.point::double as value,
    null as low,
    null as high,
    points.n_units,
    points.n_dropped,
    counted.n_trials,
    counted.n_missing,
    null as method,
    case
        when points.point is not null then 'one_of_five'
        when points.n_tested = 0 then 'too_few_units'
        else 'not_significant'
    end as reason,
    null as p_value,
    null as p_bonferroni,
    null as is_significant,
    null as test,
    null as p_reason
from points
inner join counted
    on
        points.dimension = counted.dimension
        and points.ambiguity_class = counted.ambiguity_class
