-- macro: ratio_interval
-- inputs: one row per unit of a cell
-- outputs: struct(low double, high double, method varchar), null where undefined
-- equation: cluster bootstrap of sum(numerator) / sum(denominator)
-- source: docs/metrics.md 5
-- notes: fewer than two clusters, or nothing below the line, give null.
create or replace macro ratio_interval(
    numerator, denominator, unit_id, cluster_index, cluster_count
) as ratio_bounds(
    list(numerator::double order by unit_id) filter (where numerator is not null),
    list(denominator::double order by unit_id) filter (where numerator is not null),
    list(cluster_index order by unit_id) filter (where numerator is not null),
    any_value(cluster_count),
    getvariable('draws'),
    getvariable('seed'),
    getvariable('confidence'),
    getvariable('bootstrap')
)
