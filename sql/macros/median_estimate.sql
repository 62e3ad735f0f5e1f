-- macro: median_estimate
-- inputs: one row per unit of a cell
-- outputs: the struct of as_estimate
-- equation: median over the units that have a value; of an even number the mean of the
--     two in the middle
-- source: docs/metrics.md 4 and 5
-- notes: units without a value are counted as dropped.
create or replace macro median_estimate(
    unit_value, undefined_reason, cluster_index, cluster_count
) as as_estimate(
    median(unit_value),
    median_interval(unit_value, cluster_index, cluster_count),
    count(unit_value),
    count(*) - count(unit_value),
    undefined_reason
)
