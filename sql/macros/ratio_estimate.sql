-- macro: ratio_estimate
-- inputs: one row per unit of a cell
-- outputs: the struct of as_estimate
-- equation: sum(numerator) / sum(denominator) over the units with a numerator
-- source: docs/metrics.md 3 and 5
-- notes: a denominator of 0 gives null with the given reason.
create or replace macro ratio_estimate(
    numerator, denominator, undefined_reason, cluster_index, cluster_count
) as as_estimate(
    sum(numerator)
    / nullif(sum(denominator) filter (where numerator is not null), 0),
    ratio_interval(numerator, denominator, cluster_index, cluster_count),
    count(numerator),
    count(*) - count(numerator),
    undefined_reason
)
