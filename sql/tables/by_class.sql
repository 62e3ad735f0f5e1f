-- view: by_class
-- grain: benchmark, ambiguity_class, agent, condition, measure
-- inputs: unit_values
-- outputs:
--   benchmark, ambiguity_class, agent, condition, measure, value, low, high, n_units,
--   n_dropped, n_clusters, n_trials, n_missing, method, reason
-- equation: mean over variants of pass@1 and pass@k; gain = value(ask_user) -
--     value(underspecified)
-- source: docs/metrics.md 2, 3 and 6 [LHAW tables 7 to 9]
-- notes: the class is the assigned class of the variant, never the agent's own class.
--     The full value of a variant is the value of its task, or its own value under
--     oracle scope variant. Variants without a class and new_task variants have no row;
--     the notes of the table count them.
select
    benchmark,
    ambiguity_class,
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
    unit_kind = 'variant'
    and ambiguity_class is not null
    and condition in ('full', 'underspecified', 'ask_user')
    and measure in ('pass_at_1', 'pass_at_1_gain', 'pass_at_k', 'pass_at_k_gain')
group by benchmark, ambiguity_class, agent, condition, measure
