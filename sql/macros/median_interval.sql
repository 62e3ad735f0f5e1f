-- macro: median_interval
-- inputs: one row per unit of a cell
-- outputs: struct(low double, high double, method varchar), null where undefined
-- equation: cluster bootstrap of the median
-- source: docs/metrics.md 5
-- notes: units without a value are left out; fewer than two clusters give null. As in
--     ratio_interval, one list keeps the parts of a unit together.
create or replace macro median_interval(
    unit_value, cluster_index, cluster_count
) as median_bounds(
    list_transform(
        list({ 'value': unit_value::double, 'cluster': cluster_index })
        filter (where unit_value is not null),
        lambda unit: unit.value
    ),
    list_transform(
        list({ 'value': unit_value::double, 'cluster': cluster_index })
        filter (where unit_value is not null),
        lambda unit: unit.cluster
    ),
    any_value(cluster_count),
    getvariable('draws'),
    getvariable('seed'),
    getvariable('confidence'),
    getvariable('bootstrap')
)
