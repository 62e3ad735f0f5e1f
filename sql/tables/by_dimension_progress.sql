-- view: by_dimension_progress
-- grain: benchmark, agent, dimension, condition, measure
-- inputs: int_by_dimension
-- outputs:
--   benchmark, agent
--   dimension varchar: goal, constraint, input, context, or all
--   condition, measure, value, low, high, n_units, n_dropped, n_clusters, n_trials,
--   n_missing, method, reason
-- equation: means over the units of a dimension; gain = value(ask_user) -
--     value(underspecified), paired
-- source: docs/metrics.md 3 and 6 [LHAW table 6]; parameter `per`
-- notes: under full, the units are the tasks of the variants in the dimension, and each
--     task counts once. Otherwise they are variants. Dimension all has every variant
--     once.
select *
from int_by_dimension
where measure like 'checkpoint\_progress%' escape '\'
