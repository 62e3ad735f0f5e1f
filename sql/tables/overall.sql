-- view: overall
-- grain: benchmark, agent, condition, measure
-- inputs: int_ask_estimates, int_question_gains, int_unit_values, int_variant_gains
-- outputs:
--   benchmark varchar: name of the benchmark
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
-- equation: means over units; gain = value(ask_user) - value(underspecified), paired
-- source: docs/metrics.md 3 and 6 [LHAW table 3; also pass^k]
-- notes: units are tasks for full and variants else. Gains and what asking brought
--     stand under the condition ask_user. Shares of pass@k, pass^k and progress are
--     fractions.
with levels as (
    select
        benchmark,
        agent,
        condition,
        measure,
        mean_estimate(
            unit_value, reason, cluster_index, cluster_count, is_binary
        ) as estimate,
        coalesce(
            sum(n_trials) filter (where unit_value is not null), 0
        )::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from int_unit_values
    where
        (condition = 'full' and unit_kind = 'task')
        or (condition in ('underspecified', 'ask_user') and unit_kind = 'variant')
    group by benchmark, agent, condition, measure
),

gains as (
    select
        benchmark,
        agent,
        'ask_user' as condition,
        measure || '_gain' as measure,
        mean_estimate(
            gain, reason, cluster_index, cluster_count, false
        ) as estimate,
        coalesce(
            sum(n_trials) filter (where gain is not null), 0
        )::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from int_variant_gains
    group by benchmark, agent, measure
),

behaviour as (
    select
        benchmark,
        agent,
        'ask_user' as condition,
        measure,
        estimate,
        n_trials,
        n_missing
    from int_ask_estimates
),

per_question as (
    select
        benchmark,
        agent,
        'ask_user' as condition,
        measure,
        estimate,
        n_trials,
        n_missing
    from int_question_gains
),

united as (
    select * from levels
    union all
    select * from gains
    union all
    select * from behaviour
    union all
    select * from per_question
)

select
    benchmark,
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
