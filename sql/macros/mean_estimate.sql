-- macro: mean_estimate
-- inputs: one row per unit of a cell
-- outputs: the struct of as_estimate
-- equation: mean over the units that have a value, each weighing the same
-- source: docs/metrics.md 3 and 5
-- notes: units without a value are counted as dropped; without any value the reason is
--     the units' own (the first by name where they differ).
create or replace macro mean_estimate(
    unit_value, unit_reason, cluster_index, cluster_count, is_binary
) as as_estimate(
    avg(unit_value),
    mean_interval(unit_value, cluster_index, cluster_count, is_binary),
    count(unit_value),
    count(*) - count(unit_value),
    min(unit_reason)
)
