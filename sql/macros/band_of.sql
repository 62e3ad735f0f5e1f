-- macro: band_of
-- inputs: the estimate of a point of a curve, its half width from band_half, the least
--     and the largest value that it can have, null if none
-- outputs: struct(low double, high double), null without an interval or a half width
-- equation: hull of the interval and of value - half, value + half
-- source: docs/metrics.md 5
-- notes: the half width is that of all points of the curve at once.
create or replace macro band_of(estimate, half, lowest, highest) as case
    when half is not null and estimate.low is not null
        then {
            'low': round(
                greatest(lowest, least(estimate.low, estimate.value - half)), 6
            ),
            'high': round(
                least(highest, greatest(estimate.high, estimate.value + half)), 6
            )
        }
end
