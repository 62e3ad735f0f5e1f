-- view: timing_hypotheses
-- grain: benchmark, hypothesis, dimension, agent, measure
-- inputs: int_pools, int_variant_dimensions, int_voi_units
-- outputs:
--   benchmark varchar: name of the benchmark; all pools several
--   hypothesis varchar: H1 or H2
--   dimension
--   agent varchar: all; the agents are pooled
--   measure
--   value double: the mean
--   low, high, n_units, n_dropped, n_clusters, n_trials, n_missing
--   has_oracle_gap boolean: full exceeds underspecified over the units with both
--   method varchar: sign_flips
--   reason varchar: why value or interval is null
--   alternative varchar: greater, or two_sided
--   p_value double: test of a mean of 0, two-sided like the interval
--   p_claimed double: test for the alternative that the hypothesis claims
--   p_holm double: p_claimed corrected within the benchmark
--   p_reason varchar: why p_claimed is null
-- equation: v = `timing_measure` of a unit; early_minus_late_decay = (v(10) - v(50)) -
--     (v(50) - v(90)); decay_10_to_90 = v(10) - v(90); gain_at_90 =
--     v(90) - v(underspecified)
-- source: docs/metrics.md 4 and 5 [Ask Early section 3, H1 and H2]; parameters `per`,
--     `permutations`, `pooled`, `seed`, `timing_measure`, `voi_cases`
-- notes: means are over agents within a task, then over tasks. H1: goal and context
--     lose their value early (value above 0), and input loses it evenly (two-sided; a
--     large p-value does not prove this, see the interval). H2: constraint loses value
--     with delay and keeps some value until 90 % (both above 0). H2 is tested only if
--     full exceeds underspecified; otherwise there is no p_claimed (no_oracle_gap). The
--     signs of a cluster are flipped together; with fewer than 6 clusters there is no
--     p_claimed (too_few_clusters).
with units as (
    select
        benchmark,
        agent,
        variant_id,
        any_value(task_id) as task_id,
        any_value(variant_digest) as variant_digest,
        any_value(cluster_id) as cluster_id,
        any_value(unit_id) as unit_id,
        any_value(unit_value) filter (where inject_percent = 10) as value_at_10,
        any_value(unit_value) filter (where inject_percent = 50) as value_at_50,
        any_value(unit_value) filter (where inject_percent = 90) as value_at_90,
        any_value(underspecified_value) as underspecified_value,
        any_value(gain) filter (where condition = 'full') as oracle_gap,
        coalesce(min(gain_reason), 'not_run') as reason,
        any_value({ 'trials': n_trials, 'missing': n_missing })
        filter (where inject_percent = 10) as n_10,
        any_value({ 'trials': n_trials, 'missing': n_missing })
        filter (where inject_percent = 50) as n_50,
        any_value({ 'trials': n_trials, 'missing': n_missing })
        filter (where inject_percent = 90) as n_90,
        any_value({ 'trials': n_baseline_trials, 'missing': n_baseline_missing })
            as n_baseline
    from int_voi_units
    where condition <> 'underspecified' and measure = getvariable('timing_measure')
    group by benchmark, agent, variant_id
),

contrasted as (
    select
        *,
        unnest(
            [
                {
                    'measure': 'early_minus_late_decay',
                    'unit_value': value_at_10 - 2 * value_at_50 + value_at_90,
                    'n_trials': n_10.trials + n_50.trials + n_90.trials,
                    'n_missing': n_10.missing + n_50.missing + n_90.missing
                },
                {
                    'measure': 'decay_10_to_90',
                    'unit_value': value_at_10 - value_at_90,
                    'n_trials': n_10.trials + n_90.trials,
                    'n_missing': n_10.missing + n_90.missing
                },
                {
                    'measure': 'gain_at_90',
                    'unit_value': value_at_90 - underspecified_value,
                    'n_trials': n_90.trials + n_baseline.trials,
                    'n_missing': n_90.missing + n_baseline.missing
                }
            ]
        ) as contrast
    from units
),

claimed as (
    select
        int_pools.pool as benchmark,
        case when dimensions.dimension = 'constraint' then 'H2' else 'H1' end
            as hypothesis,
        dimensions.dimension,
        units.agent as own_agent,
        concat_ws('|', units.benchmark, units.task_id) as task_key,
        units.contrast.measure,
        units.contrast.unit_value,
        units.reason,
        units.oracle_gap,
        units.cluster_id,
        units.unit_id,
        units.contrast.n_trials,
        units.contrast.n_missing
    from contrasted as units
    inner join int_pools
        on units.benchmark = int_pools.benchmark and not int_pools.is_single
    inner join int_variant_dimensions as dimensions
        on units.variant_digest = dimensions.variant_digest
    where
        (dimensions.dimension = 'constraint')
        <> (units.contrast.measure = 'early_minus_late_decay')
),

weighted as (
    select
        *,
        agent_weight(
            'all',
            own_agent,
            task_key,
            unit_value,
            row(benchmark, dimension, measure)
        ) as weight,
        agent_weight(
            'all',
            own_agent,
            task_key,
            oracle_gap,
            row(benchmark, dimension, measure)
        ) as gap_weight
    from claimed
),

estimated as (
    select
        benchmark,
        hypothesis,
        dimension,
        measure,
        unit_estimate(
            measure_kind(measure),
            weight * unit_value,
            weight,
            min(reason),
            cluster_id
        ) as estimate,
        round(sum(gap_weight * oracle_gap) / sum(gap_weight), 6) > 0
            as has_oracle_gap,
        dimension = 'input' as is_two_sided,
        sum_once(unit_id, case when unit_value is not null then n_trials end)
            as n_trials,
        sum_once(unit_id, n_missing) as n_missing
    from weighted
    group by benchmark, hypothesis, dimension, measure
),

tested as (
    select
        *,
        case
            when estimate.n_clusters < 6 then 'too_few_clusters'
            when hypothesis = 'H2' and not coalesce(has_oracle_gap, false)
                then 'no_oracle_gap'
        end as p_reason,
        case
            when
                estimate.n_clusters >= 6
                and (hypothesis = 'H1' or coalesce(has_oracle_gap, false))
                then if(is_two_sided, estimate.p_value, estimate.p_greater)
        end as p_claimed
    from estimated
)

select
    benchmark,
    hypothesis,
    dimension,
    'all' as agent,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    n_trials,
    n_missing,
    has_oracle_gap,
    estimate.method,
    estimate.reason,
    case when is_two_sided then 'two_sided' else 'greater' end as alternative,
    significant(estimate.p_value) as p_value,
    significant(p_claimed) as p_claimed,
    significant(holm(p_claimed, list(p_claimed) over (partition by benchmark)))
        as p_holm,
    p_reason
from tested
