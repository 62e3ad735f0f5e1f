-- macro: mean_interval
-- inputs: one row per unit of a cell
-- outputs: struct(low double, high double, method varchar), null where undefined
-- equation: Wilson over units where pass@k has n = k and every value is 0 or 1, else
--     the cluster bootstrap of the mean
-- source: docs/metrics.md 5
-- notes: units without a value are left out; fewer than two clusters give null.
create or replace macro mean_interval(
    unit_value, cluster_index, cluster_count, is_binary
) as case
    when
        bool_and(is_binary and unit_value in (0, 1))
        filter (where unit_value is not null)
        then wilson_bounds(
            count(*) filter (where unit_value = 1),
            count(unit_value),
            getvariable('confidence')
        )
    else ratio_interval(unit_value, 1, cluster_index, cluster_count)
end
