-- macro: band_half
-- inputs: the condition, cluster, weight and value of each unit of all injections of a
--     curve
-- outputs: list of struct(member bigint, number double): the percentage of each
--     injection, and half the width of the band there
-- equation: quantile of the largest studentised mean under joint sign flips of whole
--     clusters, times the standard error of the point
-- source: docs/metrics.md 5
-- notes: number is null below 6 clusters. The band is the hull with the interval.
create or replace macro band_half(condition, cluster_id, weight, unit_value) as
band_halves(
    list(
        {
            'member': condition[8:]::bigint,
            'cluster': hash(cluster_id),
            'above': weight * unit_value,
            'below': weight
        }
    ) filter (where unit_value is not null),
    getvariable('confidence'),
    getvariable('draws'),
    getvariable('permutations'),
    getvariable('seed')
)
