-- view: by_segments_removed
-- grain: benchmark, segments_removed, agent, condition, measure
-- inputs: unit_values
-- outputs:
--   benchmark
--   segments_removed bigint: segments removed from the prompt; 0 is the full prompt
--   agent, condition, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing, method, reason
-- equation: means over units of pass@k; gain = value(ask_user) - value(underspecified),
--     paired
-- source: docs/metrics.md 3 and 6 [LHAW table 2]
-- notes: if segments_removed is 0 (condition full), the units are all tasks. Otherwise
--     they are the variants whose removed segments are known.
select
    benchmark,
    coalesce(segments_removed, 0) as segments_removed,
    agent,
    condition,
    measure,
    unnest(
        table_estimate(
            measure,
            numerator,
            denominator,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        )
    )
from unit_values
where
    (
        (unit_kind = 'task' and condition = 'full')
        or (
            unit_kind = 'variant'
            and condition in ('underspecified', 'ask_user')
            and segments_removed > 0
        )
    )
    and measure in ('pass_at_1', 'pass_at_1_gain', 'pass_at_k', 'pass_at_k_gain')
group by benchmark, coalesce(segments_removed, 0), agent, condition, measure
