-- view: int_failure_modes
-- grain: is_of_failed, benchmark, agent, category, measure
-- inputs: int_flag_values
-- outputs:
--   is_of_failed boolean: only trials without success; else all trials
--   benchmark, agent
--   category varchar: failure mode, one of seven
--   measure varchar: any_flag, or one of the three flags of the category
--   value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing, method,
--   reason
-- equation: trials with the flag / trials with questions
-- source: docs/metrics.md 3 and 6, failure modes
-- notes: the rows of failure_modes and failure_modes_failed. Units are trials.
with scoped as (
    select
        *,
        unnest(case when not is_success then [false, true] else [false] end)
            as is_of_failed
    from int_flag_values
)

select
    is_of_failed,
    benchmark,
    agent,
    category,
    measure,
    unnest(flag_estimate(unit_value, reason, cluster_id, n_missing_of_agent))
from scoped
group by is_of_failed, benchmark, agent, category, measure
