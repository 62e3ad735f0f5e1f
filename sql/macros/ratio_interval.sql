-- macro: ratio_interval
-- inputs: one row per unit of a cell
-- outputs: struct(low double, high double, method varchar), null where undefined
-- equation: cluster bootstrap of sum(numerator) / sum(denominator)
-- source: docs/metrics.md 5
-- notes: units without a numerator are left out. Fewer than two clusters, or nothing
--     below the line, give null. One list keeps the parts of a unit together; it is
--     collected once, and the order of the units makes no difference.
create or replace macro ratio_interval(
    numerator, denominator, cluster_index, cluster_count
) as ratio_bounds(
    list_transform(
        list(
            {
                'above': numerator::double,
                'below': denominator::double,
                'cluster': cluster_index
            }
        ) filter (where numerator is not null),
        lambda unit: unit.above
    ),
    list_transform(
        list(
            {
                'above': numerator::double,
                'below': denominator::double,
                'cluster': cluster_index
            }
        ) filter (where numerator is not null),
        lambda unit: unit.below
    ),
    list_transform(
        list(
            {
                'above': numerator::double,
                'below': denominator::double,
                'cluster': cluster_index
            }
        ) filter (where numerator is not null),
        lambda unit: unit.cluster
    ),
    any_value(cluster_count),
    getvariable('draws'),
    getvariable('seed'),
    getvariable('confidence'),
    getvariable('bootstrap')
)
