-- view: by_strategy
-- grain: benchmark, ambiguity_class, strategy, agent, condition, measure
-- inputs: int_agent_arms, int_group_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   ambiguity_class varchar: outcome-critical, divergent, benign, or all
--   strategy varchar: strategy
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   model varchar: model name
--   persona varchar: persona
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
-- equation: means over variants; gain = value(ask_user) - value(underspecified) of the
--     same agent, paired; asking as in overall
-- source: docs/metrics.md 3 and 6 [LHAW table 10]
-- notes: agents that differ in their strategy only (int_agent_arms); no rows where no
--     agent has a strategy. Each strategy stands against its own underspecified arm.
--     Class all holds variants without a class too.
select
    estimates.benchmark,
    estimates.subgroup_name as ambiguity_class,
    arms.strategy,
    estimates.agent,
    arms.model,
    arms.persona,
    estimates.condition,
    estimates.measure,
    estimates.estimate.value,
    estimates.estimate.low,
    estimates.estimate.high,
    estimates.estimate.n_units,
    estimates.estimate.n_dropped,
    estimates.n_trials,
    estimates.n_missing,
    estimates.estimate.method,
    estimates.estimate.reason
from int_group_estimates as estimates
inner join int_agent_arms as arms
    on estimates.benchmark = arms.benchmark and estimates.agent = arms.agent
where estimates.table_name = 'by_strategy'
