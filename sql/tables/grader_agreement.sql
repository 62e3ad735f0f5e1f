-- view: grader_agreement
-- grain: benchmark, grader, other_grader, measure
-- inputs: exclusions, gradings, int_task_clusters, int_trials_evaluated
-- outputs:
--   benchmark
--   grader varchar: who graded
--   other_grader varchar: the grader that it is compared with
--   measure
--   value double: the mean, ratio or coefficient
--   low, high
--   n_units bigint: trials with a value
--   n_dropped bigint: trials without a value
--   n_clusters, n_trials, n_missing, method, reason
--   n_claims bigint: checkpoints behind the value, each scored by both graders
-- equation: exact_agreement_pct = 100 * checkpoints with equal scores / checkpoints
--     that both scored; kappa = 1 - mean distance of the two scores / mean distance by
--     chance (Cohen's, linear weights); pass_agreement_pct = 100 * trials that both
--     pass or both fail / trials; mean_coverage_difference = mean over trials of
--     coverage by grader - coverage by other_grader
-- source: docs/metrics.md 6, grader agreement (ours)
-- notes: the trials are evaluated trials with checkpoints that two graders scored in
--     the attempt that counts. Graders are the one whose results count, and those of
--     later gradings. The rows of a pair have the first by name as grader. If a grader
--     graded several times, its results that count are used, or else those with the
--     last id. A score is a share of the checkpoint's points, and coverage is a share
--     of the trial's points. The benchmark defines when a trial passes: mcp_atlas at a
--     mean score of 0.75, rounded to 3 places, the others with all points. Trials that
--     one of the two graders did not score completely are dropped from the last two
--     measures (incomplete_grading). Kappa is null if all scores of both graders are
--     equal (no_variation). Clusters are tasks.
with results as (
    select distinct
        stream_id,
        checkpoint_id,
        primary_grader as grader,
        primary_score as score,
        total,
        checkpoint_count
    from gradings
    union all
    select
        stream_id,
        checkpoint_id,
        grader,
        score,
        total,
        checkpoint_count
    from gradings
    where grader <> primary_grader
    qualify
        row_number() over (
            partition by stream_id, checkpoint_id, grader
            order by grading_id desc
        ) = 1
),

shares as (
    select
        *,
        coalesce(round(score / nullif(total, 0), 9), 0) as share
    from results
),

compared as (
    select
        trials.benchmark,
        ones.grader,
        others.grader as other_grader,
        ones.stream_id,
        ones.checkpoint_count,
        clusters.cluster_id,
        ones.score,
        others.score as other_score,
        ones.total,
        ones.share,
        others.share as other_share
    from shares as ones
    inner join shares as others
        on
            ones.stream_id = others.stream_id
            and ones.checkpoint_id = others.checkpoint_id
            and ones.grader < others.grader
    inner join int_trials_evaluated as trials
        on ones.stream_id = trials.stream_id
    inner join int_task_clusters as clusters
        on
            trials.benchmark = clusters.benchmark
            and trials.task_id = clusters.task_id
),

trials as (
    select
        benchmark,
        grader,
        other_grader,
        stream_id,
        any_value(cluster_id) as cluster_id,
        count(*) as n_claims,
        count(*) filter (where share = other_share) as n_equal,
        list(
            {
                'cluster': hash(cluster_id),
                'one': share::double,
                'other': other_share::double
            }
        ) as claims,
        count(*) = any_value(checkpoint_count) as is_whole,
        case benchmark
            when 'mcp_atlas' then round(avg(share), 3) >= 0.75
            else bool_and(share >= 1)
        end as is_pass,
        case benchmark
            when 'mcp_atlas' then round(avg(other_share), 3) >= 0.75
            else bool_and(other_share >= 1)
        end as is_other_pass,
        (sum(score) - sum(other_score)) / nullif(sum(total), 0) as difference
    from compared
    group by benchmark, grader, other_grader, stream_id
),

measured as (
    select
        benchmark,
        grader,
        other_grader,
        percent_estimate(n_equal, n_claims, 'no_units', cluster_id) as exact,
        percent_estimate(
            case when is_whole then (is_pass = is_other_pass)::integer end,
            1,
            min(case when not is_whole then 'incomplete_grading' end),
            cluster_id
        ) as pass,
        gain_estimate(
            case when is_whole then difference end,
            case
                when not is_whole then 'incomplete_grading'
                when difference is null then 'no_points'
            end,
            cluster_id
        ) as coverage,
        flatten(list(claims)) as claims,
        count(*) as n_trials,
        sum(n_claims)::bigint as n_claims,
        coalesce(sum(n_claims) filter (where is_whole), 0)::bigint as n_whole_claims
    from trials
    group by benchmark, grader, other_grader
),

weighted as (
    select
        *,
        kappa_estimate(claims) as kappa
    from measured
),

parts as (
    select
        benchmark,
        grader,
        other_grader,
        unnest(
            [
                {
                    'measure': 'exact_agreement_pct',
                    'estimate': exact,
                    'n_claims': n_claims
                },
                {
                    'measure': 'kappa',
                    'estimate': struct_update(kappa, n_units := n_trials),
                    'n_claims': n_claims
                },
                {
                    'measure': 'pass_agreement_pct',
                    'estimate': pass,
                    'n_claims': n_whole_claims
                },
                {
                    'measure': 'mean_coverage_difference',
                    'estimate': coverage,
                    'n_claims': n_whole_claims
                }
            ]
        ) as part
    from weighted
),

missing as (
    select
        benchmark,
        n
    from exclusions
    where kind = 'missing_trials'
)

select
    parts.benchmark,
    parts.grader,
    parts.other_grader,
    parts.part.measure,
    parts.part.estimate.value,
    parts.part.estimate.low,
    parts.part.estimate.high,
    parts.part.estimate.n_units,
    parts.part.estimate.n_dropped,
    parts.part.estimate.n_clusters,
    parts.part.estimate.n_units as n_trials,
    coalesce(missing.n, 0)::bigint as n_missing,
    parts.part.estimate.method,
    parts.part.estimate.reason,
    parts.part.n_claims
from parts
left join missing on parts.benchmark = missing.benchmark
