-- view: wasted
-- grain: benchmark, agent, condition, measure
-- inputs: int_voi_units, wasted_trials
-- outputs:
--   benchmark, agent, condition, measure, value, low, high, n_units, n_dropped,
--   n_clusters, n_trials, n_missing, n_not_injected
--   n_collapsed bigint: units with a value whose condition is collapsed
--   band_low double: lower bound that holds for all injections of a curve at once
--   band_high double: upper bound that holds for all injections of a curve at once
--   method, reason
-- equation: wasted_pct = 100 * wasted / pre-injection actions of a trial; the other
--     measures are per trial too. The mean over the trials of a unit, then over units;
--     for agent all, over agents within a task, then over tasks
-- source: docs/metrics.md 4 and 6 [Ask Early table 6]; parameters `wasted_match`,
--     `wasted_supply`, `wasted_uninjected`, `pooled`
-- notes: units are (variant, agent). n_collapsed counts units in which another
--     percentage gives the same action. Trials without a value are left out of a unit's
--     mean. A unit has no cost if a price is unknown, no tokens if the tokens of a
--     trial are unknown (unknown_tokens), and no values if a trial's actions are
--     unknown (unknown_actions). The band is computed as in voi.
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
        cells.task_id,
        cells.condition,
        cells.cluster_id,
        cells.n_trials
        + case
            when
                getvariable('wasted_uninjected')
                and not getvariable('intention_to_treat')
                then cells.n_not_injected
            when
                getvariable('intention_to_treat')
                and not getvariable('wasted_uninjected')
                then -cells.n_not_injected
            else 0
        end as n_trials,
        cells.n_missing,
        cells.n_not_injected,
        cells.is_collapsed,
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
            when summarised.benchmark is not null then null
            when cells.n_not_injected > 0 then 'not_injected'
            else 'no_valid_trials'
        end as reason
    from int_voi_units as cells
    left join summarised
        on
            cells.benchmark = summarised.benchmark
            and cells.agent = summarised.agent
            and cells.variant_id = summarised.variant_id
            and cells.condition = summarised.condition
    where
        cells.measure = 'pass_at_1'
        and cells.condition like 'inject%'
        and cells.reason is distinct from 'not_run'
),

listed as (
    select
        benchmark,
        agent,
        variant_id,
        task_id,
        condition,
        cluster_id,
        n_trials,
        n_missing,
        n_not_injected,
        is_collapsed,
        unnest(
            [
                {
                    'measure': 'wasted_pct',
                    'unit_value': wasted_pct,
                    'reason': coalesce(reason, trace_reason)
                },
                {
                    'measure': 'wasted_actions',
                    'unit_value': wasted_actions,
                    'reason': coalesce(reason, trace_reason)
                },
                {
                    'measure': 'pre_injection_actions',
                    'unit_value': pre_injection_actions,
                    'reason': coalesce(reason, 'unknown_actions')
                },
                {
                    'measure': 'pre_injection_tokens',
                    'unit_value': pre_injection_tokens,
                    'reason': coalesce(reason, 'unknown_tokens')
                },
                {
                    'measure': 'pre_injection_cost_usd',
                    'unit_value': pre_injection_cost_usd,
                    'reason': coalesce(reason, 'unknown_price')
                }
            ]
        ) as listed_measure
    from cells
),

pooled as (
    select
        benchmark,
        unnest([agent, 'all']) as agent,
        agent as own_agent,
        task_id,
        condition,
        listed_measure.measure,
        listed_measure.unit_value,
        case when listed_measure.unit_value is null then listed_measure.reason end
            as reason,
        cluster_id,
        n_trials,
        n_missing,
        n_not_injected,
        is_collapsed
    from listed
),

weighted as (
    select
        *,
        agent_weight(
            agent,
            own_agent,
            task_id,
            unit_value,
            row(benchmark, agent, condition, measure)
        ) as weight
    from pooled
),

estimated as (
    select
        benchmark,
        agent,
        condition,
        measure,
        unit_estimate(
            measure_kind(measure),
            weight * unit_value,
            weight,
            min(reason),
            cluster_id
        ) as estimate,
        coalesce(
            sum(n_trials) filter (where unit_value is not null), 0
        )::bigint as n_trials,
        sum(n_missing)::bigint as n_missing,
        sum(n_not_injected)::bigint as n_not_injected,
        count(*) filter (where is_collapsed and unit_value is not null)
            as n_collapsed
    from weighted
    group by benchmark, agent, condition, measure
),

halves as (
    select
        benchmark,
        agent,
        measure,
        unnest(band_half(condition, cluster_id, weight, unit_value)) as half
    from weighted
    group by benchmark, agent, measure
),

banded as (
    select
        estimated.*,
        band_of(
            estimated.estimate,
            halves.half.number,
            0,
            if(estimated.measure = 'wasted_pct', 100, null)
        ) as band
    from estimated
    left join halves
        on
            estimated.benchmark = halves.benchmark
            and estimated.agent = halves.agent
            and estimated.measure = halves.measure
            and estimated.condition = 'inject_' || halves.half.member
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
    estimate.n_clusters,
    n_trials,
    n_missing,
    n_not_injected,
    n_collapsed,
    band.low as band_low,
    band.high as band_high,
    estimate.method,
    estimate.reason
from banded
