-- view: fidelity
-- grain: benchmark, agent, condition, measure
-- inputs: unit_values
-- outputs:
--   benchmark, agent, condition, measure, value, low, high, n_units, n_dropped,
--   n_clusters, n_trials, n_missing, method, reason
-- equation: means of pass@k over outcome-critical variants; gain = value(ask_user) -
--     value(underspecified), paired; gain per question as in overall
-- source: docs/metrics.md 3 and 6 [LHAW table 12]
-- notes: outcome-critical is the assigned class. Units are (variant, agent). The full
--     value of a variant is the value of its task, or its own value under oracle scope
--     variant. Without the information, such a variant should fail. The value under
--     underspecified shows how far this is true for the agent.
select
    benchmark,
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
    and ambiguity_class = 'outcome-critical'
    and condition in ('full', 'underspecified', 'ask_user')
    and measure in (
        'pass_at_1',
        'pass_at_1_gain',
        'pass_at_k',
        'pass_at_k_gain',
        'pass_pp_per_question',
        'pass_pp_per_question_per_variant'
    )
group by benchmark, agent, condition, measure
