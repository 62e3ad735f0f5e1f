-- view: segment_labels
-- grain: benchmark, label, asserted, measure
-- inputs: int_task_clusters, segment_outcomes
-- outputs:
--   benchmark
--   label varchar: criticality or guessability
--   asserted varchar: the asserted score (0, 0.5 or 1), or all
--   measure
--   value double: the mean share of trials, or the coefficient
--   low, high
--   n_units bigint: segments with an asserted and a measured score
--   n_dropped bigint: segments without one of the two scores
--   n_clusters
--   n_trials bigint: trials behind the measured scores
--   n_missing, method, reason
-- equation: measured_pct = 100 * mean over segments of measured_criticality or
--     measured_guessability; label_tau = tau-b of the asserted and the measured scores
-- source: docs/metrics.md 2, measured scores (ours)
-- notes: the segments are those of segment_outcomes. If asserted scores are right,
--     measured_pct rises with asserted. label_tau is null with fewer than three
--     segments (too_few_cells), or if all scores are equal (no_order). Clusters are
--     tasks. A segment without an asserted score (no_asserted_score) or without a
--     measured score (no_trials) is dropped.
with labelled as (
    select
        outcomes.benchmark,
        unnest(
            [
                {
                    'label': 'criticality',
                    'asserted': outcomes.criticality,
                    'measured': outcomes.measured_criticality,
                    'n_trials': outcomes.missing_trials + outcomes.wrong_trials,
                    'n_missing': outcomes.lost_trials
                },
                {
                    'label': 'guessability',
                    'asserted': outcomes.guessability,
                    'measured': outcomes.measured_guessability,
                    'n_trials': outcomes.missing_trials,
                    'n_missing': outcomes.lost_trials
                }
            ]
        ) as score,
        clusters.cluster_id
    from segment_outcomes as outcomes
    inner join int_task_clusters as clusters
        on
            outcomes.benchmark = clusters.benchmark
            and outcomes.task_id = clusters.task_id
),

scores as (
    select
        benchmark,
        score.label,
        score.asserted,
        case when score.asserted is not null then score.measured end as measured,
        score.n_trials,
        score.n_missing,
        case
            when score.asserted is null then 'no_asserted_score'
            when score.measured is null then 'no_trials'
        end as reason,
        cluster_id
    from labelled
),

placed as (
    select
        benchmark,
        label,
        unnest(
            case
                when asserted is null then ['all']
                else ['all', printf('%g', asserted)]
            end
        ) as asserted,
        asserted as score,
        measured,
        n_trials,
        n_missing,
        reason,
        cluster_id
    from scores
),

estimated as (
    select
        benchmark,
        label,
        asserted,
        percent_estimate(measured, 1, min(reason), cluster_id) as share,
        case
            when asserted = 'all'
                then tau_estimate(
                    list(
                        {
                            'cluster': hash(cluster_id),
                            'one': score::double,
                            'other': measured::double
                        }
                    ) filter (where measured is not null)
                )
        end as rank,
        coalesce(
            sum(n_trials) filter (where measured is not null), 0
        )::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from placed
    group by benchmark, label, asserted
),

measured as (
    select
        benchmark,
        label,
        asserted,
        'measured_pct' as measure,
        share as estimate,
        n_trials,
        n_missing
    from estimated
    union all
    select
        benchmark,
        label,
        asserted,
        'label_tau' as measure,
        struct_update(rank, n_dropped := share.n_dropped) as estimate,
        n_trials,
        n_missing
    from estimated
    where asserted = 'all'
)

select
    benchmark,
    label,
    asserted,
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
    estimate.reason
from measured
