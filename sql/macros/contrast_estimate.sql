-- macro: contrast_estimate
-- inputs: the kind of the values (level, percent or amount), and a list of
--     struct(cluster ubigint, is_a double, above double, below double): the units of
--     two arms (is_a 1 or 0) that have no cluster in common
-- outputs: the struct of unit_estimate
-- equation: sum(above) / sum(below) of arm a minus that of the other arm
-- source: docs/metrics.md 5
-- notes: the interval inverts the permutation test of whole clusters, joined with the
--     test by the own intervals of both arms; p_value is that of the joint test.
create or replace macro contrast_estimate(kind, items) as cell_contrast(
    kind,
    items,
    0,
    null,
    getvariable('confidence'),
    getvariable('draws'),
    getvariable('permutations'),
    getvariable('seed')
)
