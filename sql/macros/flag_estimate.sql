-- macro: flag_estimate
-- inputs: one row of int_flag_values per unit of a cell, and the missing trials
-- outputs: the struct of table_estimate
-- equation: that of level_estimate
-- source: docs/metrics.md 3, failure modes, and 5
-- notes: a unit is a trial. The list of one makes sure that an estimate is computed
--     once.
create or replace macro flag_estimate(
    unit_value, reason, cluster_id, n_missing
) as list_transform(
    [
        {
            'estimate': level_estimate(unit_value, reason, cluster_id),
            'n_trials': count(unit_value),
            'n_missing': any_value(n_missing)
        }
    ],
    lambda cell: struct_pack(
        value := cell.estimate.value,
        low := cell.estimate.low,
        high := cell.estimate.high,
        n_units := cell.estimate.n_units,
        n_dropped := cell.estimate.n_dropped,
        n_clusters := cell.estimate.n_clusters,
        n_trials := cell.n_trials,
        n_missing := cell.n_missing,
        method := cell.estimate.method,
        reason := cell.estimate.reason
    )
)[1]
