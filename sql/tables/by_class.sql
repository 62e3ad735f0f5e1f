-- view: by_class
-- grain: benchmark, ambiguity_class, agent, condition, measure
-- inputs: int_variant_gains, int_variant_values
-- outputs:
--   benchmark varchar: name of the benchmark
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   value double: the mean, ratio or count
--   low double: lower bound
--   high double: upper bound
--   n_units bigint: units with a value
--   n_dropped bigint: units without a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   method varchar: wilson, percentile or bca
--   reason varchar: why something is null
-- equation: mean over variants of pass@k; gain = value(ask_user) -
--     value(underspecified)
-- source: docs/metrics.md 2, 3 and 6 [LHAW tables 7 to 9]
-- notes: by the assigned class of the variant, never the agent's own. The full value of
--     a variant is that of its task, or its own under oracle scope variant. Variants
--     without a class and new_task variants have no row; the notes of the table count
--     them.
with levels as (
    select
        benchmark,
        ambiguity_class,
        agent,
        condition,
        measure,
        mean_estimate(
            unit_value, reason, cluster_index, cluster_count, is_binary
        ) as estimate,
        sum_once(cell_id, case when unit_value is not null then n_trials end)
            as n_trials,
        sum_once(cell_id, n_missing) as n_missing
    from int_variant_values
    where
        ambiguity_class is not null
        and measure = 'pass_at_k'
        and condition in ('full', 'underspecified', 'ask_user')
    group by benchmark, ambiguity_class, agent, condition, measure
),

gains as (
    select
        benchmark,
        ambiguity_class,
        agent,
        'ask_user' as condition,
        'pass_at_k_gain' as measure,
        mean_estimate(
            gain, reason, cluster_index, cluster_count, false
        ) as estimate,
        coalesce(
            sum(n_trials) filter (where gain is not null), 0
        )::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from int_variant_gains
    where ambiguity_class is not null and measure = 'pass_at_k'
    group by benchmark, ambiguity_class, agent
),

united as (
    select * from levels
    union all
    select * from gains
)

select
    benchmark,
    ambiguity_class,
    agent,
    condition,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason
from united
