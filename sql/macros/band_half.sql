-- macro: band_half
-- inputs: list of struct(member bigint, cluster ubigint, above double, below double):
--     the units of all points of a curve
-- outputs: list of struct(member bigint, number double), half the width of the band
--     at each point
-- equation: quantile of the largest studentised mean under joint sign flips of whole
--     clusters, times the standard error of the point
-- source: docs/metrics.md 5
-- notes: number is null below 6 clusters. The band is the hull with the interval.
create or replace macro band_half(items) as band_halves(
    items,
    getvariable('confidence'),
    getvariable('draws'),
    getvariable('permutations'),
    getvariable('seed')
)
