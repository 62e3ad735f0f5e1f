-- view: by_dimension_pass
-- grain: benchmark, agent, dimension, condition, measure
-- inputs:
-- outputs:
-- equation: that of int_dimension_estimates, for pass_at_k and its gain
-- source: METRICS 3 and 6 [LHAW table 5]; FACTS B2.14; parameter `per`
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
where measure in ('pass_at_k', 'pass_at_k_gain')
