-- view: by_persona
-- grain: benchmark, ambiguity_class, persona, agent, condition, measure
-- inputs: int_agent_arms, int_group_estimates
-- outputs:
--   benchmark varchar: name of the benchmark
--   ambiguity_class varchar: outcome-critical, divergent, benign, or all
--   persona varchar: persona
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   model varchar: model name
--   strategy varchar: strategy
--   base_agent varchar: agent whose underspecified arm is the baseline
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
-- equation: means over variants; gain = value(ask_user, of the agent) -
--     value(underspecified, of the agent without a persona), paired;
--     questions_per_trial = questions / trials
-- source: docs/metrics.md 3 and 6 [LHAW table 14 and figure 6]
-- notes: agents that differ in their persona only (int_agent_arms); no rows where no
--     agent has a persona. Rows under underspecified are those of base_agent; without
--     one they are absent and gains are null, with int_agent_arms' reason. questions is
--     a count. Class all holds variants without a class too.
with counted as (
    select
        *,
        unnest(
            case measure
                when 'questions_per_trial' then [measure, 'questions']
                else [measure]
            end
        ) as shown_measure
    from int_group_estimates
    where table_name = 'by_persona'
),

shown as (
    select
        *,
        shown_measure = 'questions' and total is not null as is_count
    from counted
)

select
    shown.benchmark,
    shown.subgroup_name as ambiguity_class,
    arms.persona,
    shown.agent,
    arms.model,
    arms.strategy,
    arms.base_agent,
    shown.condition,
    shown.shown_measure as measure,
    case when shown.is_count then shown.total else shown.estimate.value end as value,
    case when not shown.is_count then shown.estimate.low end as low,
    case when not shown.is_count then shown.estimate.high end as high,
    shown.estimate.n_units,
    shown.estimate.n_dropped,
    shown.n_trials,
    shown.n_missing,
    case when not shown.is_count then shown.estimate.method end as method,
    case when shown.is_count then 'count' else shown.estimate.reason end as reason
from shown
inner join int_agent_arms as arms
    on shown.benchmark = arms.benchmark and shown.agent = arms.agent
