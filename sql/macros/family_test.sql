-- macro: family_test
-- inputs: list of struct(member bigint, cluster ubigint, above double, below double,
--     base double, n_base double, n_own double, is_one_sided double, lead double):
--     the units of all claims of a family
-- outputs: list of struct(member bigint, number double), the p-value of each claim
-- equation: step-down max of t + lead over joint sign flips of whole clusters
-- source: docs/metrics.md 5
-- notes: number is null below 6 clusters.
create or replace macro family_test(items) as family_p_values(
    items,
    getvariable('confidence'),
    getvariable('draws'),
    getvariable('permutations'),
    getvariable('seed')
)
