-- macro: shared_estimate
-- inputs: those of unit_estimate, and per unit the value of the arm that units of its
--     cluster share, the trials behind it, and the unit's own trials; null if none is
--     shared
-- outputs: the struct of unit_estimate
-- equation: that of unit_estimate
-- source: docs/metrics.md 5
-- notes: the p-value of a loss is the larger one of sign flips of whole clusters and of
--     an exchange of trials inside clusters. Trials are counted in units of what one
--     value needs: pass@3 of three trials counts as one.
create or replace macro shared_estimate(
    kind, numerator, denominator, base, n_base, n_own, undefined_reason, cluster_id
) as cell_shared(
    any_value(kind),
    list(
        {
            'cluster': hash(cluster_id),
            'above': numerator::double,
            'below': denominator::double,
            'base': base::double,
            'n_base': n_base::double,
            'n_own': n_own::double
        }
    ) filter (where numerator is not null),
    count(*) - count(numerator),
    undefined_reason,
    getvariable('confidence'),
    getvariable('draws'),
    getvariable('permutations'),
    getvariable('seed')
)
