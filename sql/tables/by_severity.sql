-- view: by_severity
-- grain: benchmark, severity, ambiguity_class, agent, condition, measure
-- inputs: int_candidates, observed_classes, unit_values
-- outputs:
--   benchmark
--   severity varchar: delete, vaguify, genericize, decoy, environment or unknown
--   ambiguity_class varchar: outcome-critical, divergent, benign, new_task,
--       unclassified, or all
--   agent, condition, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing, method, reason
-- equation: pass_at_k, gain: means over variants, as in overall; candidate_pass_at_1,
--     candidate_pass_at_k: mean over candidates of pass@1 and pass@k of the classifying
--     trials; candidates: their number
-- source: docs/metrics.md 2, 3 and 6 [LHAW table 11]
-- notes: candidates are all registered variants, including new_task and unclassified
--     ones (int_candidates). The values of candidates use only the classifying agent's
--     trials, which the other rows leave out. The severity is unknown if none was
--     recorded.
with classified as (
    select
        variant_digest,
        agent,
        n_trials,
        n_planned - n_trials as n_missing,
        unnest(
            [
                {
                    'measure': 'candidate_pass_at_1',
                    'number': n_success / nullif(n_trials, 0),
                    'reason': 'no_valid_trials'
                },
                {
                    'measure': 'candidate_pass_at_k',
                    'number': case
                        when n_trials >= getvariable('k')
                            then 1 - list_product(
                                list_transform(
                                    range(0, getvariable('k')),
                                    lambda i: greatest(n_trials - n_success - i, 0)
                                    / (n_trials - i)
                                )
                            )
                    end,
                    'reason': 'too_few_trials'
                }
            ]
        ) as level
    from observed_classes
    where role = 'classifier'
),

units as (
    select
        benchmark,
        severity,
        agent,
        condition,
        measure,
        numerator,
        denominator,
        reason,
        cell_id,
        n_trials,
        n_missing,
        cluster_id
    from unit_values
    where
        unit_kind = 'variant'
        and condition in ('underspecified', 'ask_user')
        and measure in ('pass_at_1', 'pass_at_1_gain', 'pass_at_k', 'pass_at_k_gain')
    union all
    select
        candidates.benchmark,
        candidates.severity,
        classified.agent,
        'underspecified' as condition,
        classified.level.measure,
        classified.level.number as numerator,
        1.0::double as denominator,
        classified.level.reason,
        concat_ws('|', classified.agent, candidates.variant_digest) as cell_id,
        classified.n_trials,
        classified.n_missing,
        candidates.cluster_id
    from int_candidates as candidates
    inner join classified
        on candidates.variant_digest = classified.variant_digest
),

estimated as (
    select
        benchmark,
        severity,
        agent,
        condition,
        measure,
        table_estimate(
            measure,
            numerator,
            denominator,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        ) as estimate
    from units
    group by benchmark, severity, agent, condition, measure
),

candidates as (
    select
        benchmark,
        severity,
        unnest(['all', ambiguity_class]) as ambiguity_class,
        cluster_id
    from int_candidates
),

counted as (
    select
        benchmark,
        severity,
        ambiguity_class,
        table_count(count(*), count(distinct cluster_id), 0, 0) as estimate
    from candidates
    group by benchmark, severity, ambiguity_class
)

select
    benchmark,
    severity,
    'all' as ambiguity_class,
    agent,
    condition,
    measure,
    estimate.*
from estimated
union all
select
    benchmark,
    severity,
    ambiguity_class,
    'all' as agent,
    'underspecified' as condition,
    'candidates' as measure,
    estimate.*
from counted
