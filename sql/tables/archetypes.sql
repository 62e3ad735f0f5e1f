-- view: archetypes
-- grain: benchmark, agent
-- inputs: int_agent_arms, int_ask_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   model varchar: model name
--   archetype varchar: over-clarifier, balanced or under-clarifier
--   is_archetype_clear boolean: the whole interval lies in it; null without interval
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
-- equation: over-clarifier: ask_pct >= over_clarifier_pct; under-clarifier: ask_pct <
--     under_clarifier_pct; else balanced
-- source: docs/metrics.md 3 and 6 [Ask Early table 2]; parameters `over_clarifier_pct`,
--     `under_clarifier_pct`
-- notes: the value is ask_pct of overall: valid trials of ask_user with a question, %.
--     Without such trials the archetype is null.
with rates as (
    select
        rates.benchmark,
        rates.agent,
        arms.model,
        rates.measure,
        rates.estimate,
        rates.n_trials,
        rates.n_missing
    from int_ask_estimates as rates
    inner join int_agent_arms as arms
        on rates.benchmark = arms.benchmark and rates.agent = arms.agent
    where rates.measure = 'ask_pct'
),

named as (
    select
        *,
        list_transform(
            [estimate.value, estimate.low, estimate.high],
            lambda pct: case
                when pct >= getvariable('over_clarifier_pct') then 'over-clarifier'
                when pct < getvariable('under_clarifier_pct') then 'under-clarifier'
                when pct is not null then 'balanced'
            end
        ) as archetypes
    from rates
)

select
    benchmark,
    agent,
    model,
    archetypes[1] as archetype,
    archetypes[2] = archetypes[3] as is_archetype_clear,
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
from named
