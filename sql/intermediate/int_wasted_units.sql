-- view: int_wasted_units
-- grain: benchmark, agent, variant_id, condition, measure
-- inputs: int_injections, pass_at_k, wasted_trials
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   unit_value double: value of the unit
--   reason varchar: why something is null
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   n_not_injected bigint: valid trials left out: ended before the injection
--   is_collapsed boolean: another percentage gives the same action
-- equation: value per trial, mean per unit
-- source: docs/metrics.md 4, wasted compute
-- notes: the unit is (variant, agent). Trials without a value are left out of the mean,
--     but a unit has no cost where a price is unknown, no tokens where a trial's are
--     (unknown_tokens), and nothing where a trial's actions are (unknown_actions).
with summarised as (
    select
        benchmark,
        agent,
        variant_id,
        condition,
        bool_or(pre_injection_actions is null) as has_unknown,
        avg(100 * wasted_ratio) as wasted_pct,
        avg(wasted_actions) as wasted_actions,
        avg(pre_injection_actions) as pre_injection_actions,
        case
            when count(*) = count(pre_injection_tokens) then avg(pre_injection_tokens)
        end as pre_injection_tokens,
        case
            when count(*) = count(pre_injection_cost_usd)
                then avg(pre_injection_cost_usd)
        end as pre_injection_cost_usd,
        case
            when bool_or(pre_injection_actions is null) then 'unknown_actions'
            else min(reason)
        end as reason
    from wasted_trials
    group by benchmark, agent, variant_id, condition
),

cells as (
    select
        cells.benchmark,
        cells.agent,
        cells.variant_id,
        cells.condition,
        cells.cluster_index,
        cells.cluster_count,
        cells.n_trials,
        cells.n_missing,
        cells.n_not_injected,
        case when not summarised.has_unknown then summarised.wasted_pct end
            as wasted_pct,
        case when not summarised.has_unknown then summarised.wasted_actions end
            as wasted_actions,
        case when not summarised.has_unknown then summarised.pre_injection_actions end
            as pre_injection_actions,
        summarised.pre_injection_tokens,
        summarised.pre_injection_cost_usd,
        summarised.reason as trace_reason,
        case
            when cells.n_trials > 0 then null
            when cells.n_not_injected > 0 then 'not_injected'
            else 'no_valid_trials'
        end as reason
    from pass_at_k as cells
    left join summarised
        on
            cells.benchmark = summarised.benchmark
            and cells.agent = summarised.agent
            and cells.variant_id = summarised.variant_id
            and cells.condition = summarised.condition
    where cells.unit_kind = 'variant' and cells.condition like 'inject%'
),

collapsed as (
    select
        benchmark,
        agent,
        variant_id,
        condition,
        bool_or(is_collapsed) as is_collapsed
    from int_injections
    group by benchmark, agent, variant_id, condition
),

listed as (
    select
        cells.benchmark,
        cells.agent,
        cells.variant_id,
        cells.condition,
        cells.cluster_index,
        cells.cluster_count,
        cells.n_trials,
        cells.n_missing,
        cells.n_not_injected,
        coalesce(collapsed.is_collapsed, false) as is_collapsed,
        unnest(
            [
                {
                    'measure': 'wasted_pct',
                    'unit_value': cells.wasted_pct,
                    'reason': coalesce(cells.reason, cells.trace_reason)
                },
                {
                    'measure': 'wasted_actions',
                    'unit_value': cells.wasted_actions,
                    'reason': coalesce(cells.reason, cells.trace_reason)
                },
                {
                    'measure': 'pre_injection_actions',
                    'unit_value': cells.pre_injection_actions,
                    'reason': coalesce(cells.reason, 'unknown_actions')
                },
                {
                    'measure': 'pre_injection_tokens',
                    'unit_value': cells.pre_injection_tokens,
                    'reason': coalesce(cells.reason, 'unknown_tokens')
                },
                {
                    'measure': 'pre_injection_cost_usd',
                    'unit_value': cells.pre_injection_cost_usd,
                    'reason': coalesce(cells.reason, 'unknown_price')
                }
            ]
        ) as listed_measure
    from cells
    left join collapsed
        on
            cells.benchmark = collapsed.benchmark
            and cells.agent = collapsed.agent
            and cells.variant_id = collapsed.variant_id
            and cells.condition = collapsed.condition
)

select
    benchmark,
    agent,
    variant_id,
    condition,
    listed_measure.measure,
    listed_measure.unit_value,
    case when listed_measure.unit_value is null then listed_measure.reason end
        as reason,
    cluster_index,
    cluster_count,
    n_trials,
    n_missing,
    n_not_injected,
    is_collapsed
from listed
