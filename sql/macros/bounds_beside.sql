-- macro: bounds_beside
-- inputs: the struct of unit_estimate of a cell, that of missing_bounds, and how many
--     trials the cell misses
-- outputs: struct(worst double, best double, worst_low double, best_high double)
-- equation: the interval from worst_low to best_high holds the mean whatever the
--     missing trials would have been
-- source: docs/metrics.md 5, missing trials
-- notes: a cell without missing trials has its own value and interval as bounds. An
--     amount with missing trials has none.
create or replace macro bounds_beside(estimate, bounds, n_missing) as struct_pack(
    worst := if(n_missing > 0, bounds.worst.value, estimate.value),
    best := if(n_missing > 0, bounds.best.value, estimate.value),
    worst_low := if(n_missing > 0, bounds.worst.low, estimate.low),
    best_high := if(n_missing > 0, bounds.best.high, estimate.high)
)
