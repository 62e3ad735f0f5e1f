-- view: by_dimension_progress
-- grain: benchmark, agent, dimension, condition, measure
-- inputs:
-- outputs:
-- equation: that of int_dimension_estimates, for checkpoint_progress and its gain
-- source: METRICS 3 and 6 [LHAW table 6]; FACTS B2.14; parameter `per`
-- notes: units are tasks for full and variants else.
select
    benchmark,
    agent,
    dimension,
    condition,
    measure,
    value,
    low,
    high,
    n_units,
    n_dropped,
    n_trials,
    n_missing,
    method,
    reason
from int_dimension_estimates
where measure in ('checkpoint_progress', 'checkpoint_progress_gain')
