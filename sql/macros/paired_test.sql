-- macro: paired_test
-- inputs: one row per unit of a cell: its difference between two arms
-- outputs: struct(p_value double, n bigint, method varchar), null without units
-- equation: two-sided permutation test of the mean difference: the arms of all units
--     of a cluster are exchanged together. Exact with few clusters, else
--     p = (1 + #) / (1 + permutations)
-- source: docs/metrics.md 5; parameters `permutations` and `seed`
-- notes: units without a difference are left out; n counts clusters.
create or replace macro paired_test(difference, cluster_index) as sign_flips(
    list(difference::double) filter (where difference is not null),
    list(cluster_index) filter (where difference is not null),
    getvariable('permutations'),
    getvariable('seed'),
    true
)
