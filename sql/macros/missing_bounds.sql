-- macro: missing_bounds
-- inputs: one row per unit of a cell: the kind of the estimand; its numerators if all
--     missing trials spoke against it, and for it; its denominator; whether the cell
--     misses any trial; and the unit's cluster
-- outputs: struct(worst, best), each the struct of unit_estimate
-- equation: the means of both numerators, each with its interval
-- source: docs/metrics.md 5, missing trials; C. F. Manski, Partial identification of
--     probability distributions (2003)
-- notes: a cell that misses none has no units here, so it costs nothing. A unit whose
--     trials are all missing has both numerators, and counts.
create or replace macro missing_bounds(
    kind, low_numerator, high_numerator, denominator, is_incomplete, cluster_id
) as struct_pack(
    worst := unit_estimate(
        kind, if(is_incomplete, low_numerator, null), denominator, null, cluster_id
    ),
    best := unit_estimate(
        kind, if(is_incomplete, high_numerator, null), denominator, null, cluster_id
    )
)
