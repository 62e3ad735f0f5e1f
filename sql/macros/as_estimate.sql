-- macro: as_estimate
-- inputs: a value, its bounds, its units, and why it would be undefined
-- outputs:
--     n_dropped bigint, method varchar, reason varchar)
-- equation: none; the one shape of every printed mean
-- source: docs/metrics.md 5
-- notes: printed digits are rounded to 6 places, so that every machine prints the same;
--     a null value or a null interval always has a reason. Bounds without numbers are
--     those of draws that all gave the same (no_variation).
create or replace macro as_estimate(
    estimated_value, bounds, n_units, n_dropped, undefined_reason
) as struct_pack(
    value := round(estimated_value::double, 6),
    low := bounds.low,
    high := bounds.high,
    n_units := n_units,
    n_dropped := n_dropped,
    method := bounds.method,
    reason := case
        when estimated_value is null then coalesce(undefined_reason, 'no_units')
        when bounds is null then 'one_cluster'
        when bounds.low is null then 'no_variation'
    end
)
