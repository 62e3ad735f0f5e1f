-- macro: median_interval
-- inputs: one row per unit of a cell
-- outputs: struct(low double, high double, method varchar), null where undefined
-- equation: cluster bootstrap of the median
-- source: docs/metrics.md 5
-- notes: units without a value are left out; fewer than two clusters give null.
create or replace macro median_interval(
    unit_value, unit_id, cluster_index, cluster_count
) as median_bounds(
    list(unit_value::double order by unit_id) filter (where unit_value is not null),
    list(cluster_index order by unit_id) filter (where unit_value is not null),
    any_value(cluster_count),
    getvariable('draws'),
    getvariable('seed'),
    getvariable('confidence'),
    getvariable('bootstrap')
)
