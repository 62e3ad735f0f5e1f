-- view: review_agreement
-- grain: benchmark, reviewer, other_reviewer, measure
-- inputs: int_task_clusters, variant_reviews
-- outputs:
--   benchmark
--   reviewer varchar: who read the variants
--   other_reviewer varchar: the other reviewer of a pair; null for one reviewer alone
--   measure
--   value double: the share or coefficient
--   low, high
--   n_units bigint: variants that the reviewer, or both, decided about
--   n_dropped, n_clusters, n_trials, n_missing, method, reason
-- equation: accepted_pct = 100 * variants accepted as they are / variants decided
--     about; agreement_pct = 100 * variants that both accept or both do not / variants
--     that both decided about; kappa = 1 - share of different decisions / share of
--     different decisions by chance (Cohen's)
-- source: docs/metrics.md 6, review agreement (ours)
-- notes: each reviewer's last decision about a variant counts. An edited variant is not
--     an accepted one. The rows of a pair have the first by name as reviewer. Kappa is
--     null if both made the same single decision about all variants (no_variation).
--     Clusters are tasks. The values do not depend on trials.
with decided as (
    select
        reviews.benchmark,
        reviews.reviewer,
        reviews.variant_digest,
        clusters.cluster_id,
        (reviews.decision = 'accepted')::integer as is_accepted
    from variant_reviews as reviews
    inner join int_task_clusters as clusters
        on
            reviews.benchmark = clusters.benchmark
            and reviews.task_id = clusters.task_id
),

alone as (
    select
        benchmark,
        reviewer,
        null::varchar as other_reviewer,
        'accepted_pct' as measure,
        percent_estimate(is_accepted, 1, 'no_units', cluster_id) as estimate
    from decided
    group by benchmark, reviewer
),

compared as (
    select
        ones.benchmark,
        ones.reviewer,
        others.reviewer as other_reviewer,
        percent_estimate(
            (ones.is_accepted = others.is_accepted)::integer,
            1,
            'no_units',
            ones.cluster_id
        ) as agreement,
        kappa_estimate(
            list(
                {
                    'cluster': hash(ones.cluster_id),
                    'one': ones.is_accepted::double,
                    'other': others.is_accepted::double
                }
            )
        ) as kappa
    from decided as ones
    inner join decided as others
        on
            ones.variant_digest = others.variant_digest
            and ones.reviewer < others.reviewer
    group by ones.benchmark, ones.reviewer, others.reviewer
),

measured as (
    select
        benchmark,
        reviewer,
        other_reviewer,
        measure,
        estimate
    from alone
    union all
    select
        benchmark,
        reviewer,
        other_reviewer,
        'agreement_pct' as measure,
        agreement as estimate
    from compared
    union all
    select
        benchmark,
        reviewer,
        other_reviewer,
        'kappa' as measure,
        kappa as estimate
    from compared
)

select
    benchmark,
    reviewer,
    other_reviewer,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    0::bigint as n_trials,
    0::bigint as n_missing,
    estimate.method,
    estimate.reason
from measured
