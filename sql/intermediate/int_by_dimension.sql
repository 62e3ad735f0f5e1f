-- view: int_by_dimension
-- grain: benchmark, agent, dimension, condition, measure
-- inputs: unit_values
-- outputs:
--   benchmark, agent
--   dimension varchar: goal, constraint, input, context, or all
--   condition, measure, value, low, high, n_units, n_dropped, n_clusters, n_trials,
--   n_missing, method, reason
-- equation: means over the units of a dimension; gain = value(ask_user) -
--     value(underspecified), paired
-- source: docs/metrics.md 3 and 6; parameter `per`
-- notes: the rows of by_dimension_pass and by_dimension_progress. Under full, the units
--     are the tasks of the variants in the dimension, and each task counts once.
--     Otherwise they are variants. Dimension all has every variant once.
with attributed as (
    select
        *,
        unnest(list_prepend('all', dimensions)) as dimension
    from unit_values
    where
        dimensions is not null
        and (
            (unit_kind = 'task' and condition = 'full')
            or (unit_kind = 'variant' and condition in ('underspecified', 'ask_user'))
        )
        and measure in (
            'pass_at_1',
            'pass_at_1_gain',
            'pass_at_k',
            'pass_at_k_gain',
            'checkpoint_progress',
            'checkpoint_progress_gain'
        )
)

select
    benchmark,
    agent,
    dimension,
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
from attributed
group by benchmark, agent, dimension, condition, measure
