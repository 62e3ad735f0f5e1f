-- view: point_of_no_return
-- grain: benchmark, dimension, ambiguity_class, agent, timing, measure
-- inputs: int_variant_dimensions, int_voi_units
-- outputs:
--   benchmark varchar: all; the benchmarks are pooled
--   dimension, ambiguity_class
--   agent varchar: all; the agents are pooled
--   timing varchar: p of inject_p; all for the point itself
--   measure varchar: injection_gain, or point_of_no_return_pct
--   value double: the mean gain; for the point, the last p up to which all gains are
--       significant
--   low, high, n_units, n_dropped, n_clusters, n_trials, n_missing
--   method varchar: sign_flips
--   reason varchar: why value or interval is null
--   p_value double: test of a gain of 0, two-sided like the interval
--   p_greater double: test for a gain above 0, one-sided
--   p_holm double: p_greater corrected over the timings; Bonferroni under flipped units
--   is_significant boolean: p_holm is below 1 - confidence
--   p_reason varchar: why p_greater and p_holm are null
-- equation: d = value(inject_p) - value(underspecified) of a unit; p-values of mean d
--     under sign flips of whole clusters; point = the last p of the unbroken run of
--     p_holm < 1 - confidence that starts at the first p
-- source: docs/metrics.md 4, point of no return [Ask Early table 8, figure 12];
--     parameters `confidence`, `flipped`, `per`, `permutations`, `pooled`, `seed`,
--     `timing_measure`, `voi_cases`
-- notes: units are (variant, agent) of every benchmark with classes; clusters are
--     tasks. The question is whether information still helps, so the deciding test is
--     one-sided. It is corrected by Holm over the timings in the store. With fewer than
--     6 clusters there is no p-value (too_few_clusters). A significant timing is never
--     the point if an earlier timing is not significant, because the meaning of such a
--     gap is unclear; is_significant is still true in its row. If the first timing is
--     not significant, the point is null (not_significant). The point can only be one
--     of a few percentages, so it has no interval (one_of_few). The p-values of the
--     timings show how uncertain it is. The point's n_units counts the units with a
--     gain at one timing or more. With `flipped = units`, as in the papers, every unit
--     is flipped separately, as if variants and agents of one task were independent.
--     The point is then the latest significant timing, even if an earlier one is not
--     significant. No minimum of clusters applies, and a p_holm equal to 1 - confidence
--     is significant. As in voi, the mean is over agents within a task, then over tasks
--     (`pooled`).
with attributed as (
    select
        dimensions.dimension,
        gains.ambiguity_class,
        gains.inject_percent,
        gains.gain,
        gains.gain_reason as reason,
        case
            when getvariable('flipped') = 'tasks'
                then gains.cluster_id
            else concat_ws('|', gains.unit_id, dimensions.position)
        end as cluster_id,
        gains.agent as own_agent,
        concat_ws('|', gains.benchmark, gains.task_id) as task_key,
        gains.cell_id,
        gains.unit_id,
        row(gains.unit_id, dimensions.position) as member,
        gains.n_trials,
        gains.n_missing,
        gains.n_baseline_trials,
        gains.n_baseline_missing
    from int_voi_units as gains
    inner join int_variant_dimensions as dimensions
        on gains.variant_digest = dimensions.variant_digest
    where
        gains.measure = getvariable('timing_measure')
        and gains.inject_percent is not null
        and gains.ambiguity_class is not null
),

weighted as (
    select
        *,
        agent_weight(
            'all',
            own_agent,
            task_key,
            gain,
            row(dimension, ambiguity_class, inject_percent)
        ) as weight
    from attributed
),

estimated as (
    select
        dimension,
        ambiguity_class,
        inject_percent,
        unit_estimate(
            'gain', weight * gain, weight, min(reason), cluster_id
        ) as estimate,
        sum_once(
            cell_id,
            case when gain is not null then n_trials + n_baseline_trials end
        ) as n_trials,
        sum_once(cell_id, n_missing + n_baseline_missing) as n_missing
    from weighted
    group by dimension, ambiguity_class, inject_percent
),

tested as (
    select
        *,
        case
            when estimate.n_clusters >= 6 or getvariable('flipped') = 'units'
                then estimate.p_greater
        end as p_greater
    from estimated
),

corrected as (
    select
        *,
        case
            when p_greater is null then null
            when getvariable('flipped') = 'units'
                then least(
                    1,
                    p_greater * count(*) over (partition by dimension, ambiguity_class)
                )
            else holm(
                p_greater,
                list(p_greater) over (partition by dimension, ambiguity_class)
            )
        end as p_holm,
        case
            when getvariable('flipped') = 'units'
                then p_holm <= round(1 - getvariable('confidence'), 12)
            else p_holm < round(1 - getvariable('confidence'), 12)
        end as is_significant
    from tested
),

reached as (
    select
        *,
        is_significant and (
            getvariable('flipped') = 'units'
            or bool_and(coalesce(is_significant, false)) over (
                partition by dimension, ambiguity_class
                order by inject_percent
            )
        ) as is_reached
    from corrected
),

points as (
    select
        dimension,
        ambiguity_class,
        max(inject_percent) filter (where is_reached) as point,
        count(p_greater) as n_tested
    from reached
    group by dimension, ambiguity_class
),

counted as (
    select
        dimension,
        ambiguity_class,
        count(distinct member) filter (where gain is not null) as n_units,
        count(distinct member) - n_units as n_dropped,
        count(distinct cluster_id) filter (where gain is not null) as n_clusters,
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
    estimate.n_clusters,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason,
    significant(estimate.p_value) as p_value,
    significant(p_greater) as p_greater,
    significant(p_holm) as p_holm,
    is_significant,
    case when p_greater is null then 'too_few_clusters' end as p_reason
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
    counted.n_units,
    counted.n_dropped,
    counted.n_clusters,
    counted.n_trials,
    counted.n_missing,
    null as method,
    case
        when points.point is not null then 'one_of_few'
        when points.n_tested = 0 then 'too_few_clusters'
        else 'not_significant'
    end as reason,
    null as p_value,
    null as p_greater,
    null as p_holm,
    null as is_significant,
    null as p_reason
from points
inner join counted
    on
        points.dimension = counted.dimension
        and points.ambiguity_class = counted.ambiguity_class
