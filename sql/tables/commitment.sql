-- view: commitment
-- grain: benchmark, dimension, agent, timing, measure
-- inputs: int_commitments, int_pools, int_voi_units
-- outputs:
--   benchmark varchar: name of the benchmark; all pools several
--   dimension
--   agent varchar: all; the agents are pooled
--   timing varchar: completed share of the trial, 0 to 100 %
--   measure varchar: commitment, voi or voi_bound
--   value double: the mean
--   low, high, n_units, n_dropped, n_clusters, n_trials, n_missing
--   has_oracle_gap boolean: voi at 0 is above 0
--   method, reason
-- equation: commitment = C(t) of int_commitments; v = `timing_measure`; voi =
--     v(inject_t) - v(underspecified), at 0 v(full) - v(underspecified); voi_bound =
--     mean of voi_unit(0) * (1 - C_unit(t))
-- source: docs/metrics.md 4, commitment [Ask Early section 3, equation 1]; parameters
--     `per`, `timing_measure`, `voi_cases`, `pooled`
-- notes: an action of a full trial uses a value if its arguments contain the value, in
--     upper or lower case. A value of less than 3 characters (value_too_short), or one
--     that no action contains (value_never_used), is never used. Units are (variant,
--     agent). They are averaged over agents within a task, then over tasks. voi and
--     voi_bound use only units with a commitment, so that they can be compared. voi has
--     values only at injection times. The bound holds for every unit, so it is averaged
--     over units, not computed from averages. The bound is uninformative if voi at 0 is
--     not above 0.
with committed as (
    select
        int_pools.pool as benchmark,
        units.benchmark as own_benchmark,
        units.agent as own_agent,
        units.variant_id,
        concat_ws('|', units.benchmark, units.task_id) as task_key,
        units.dimension,
        units.elapsed_percent,
        units.cluster_id,
        units.cell_id,
        units.commitment,
        units.reason,
        units.n_trials,
        units.n_missing
    from int_commitments as units
    inner join int_pools
        on units.benchmark = int_pools.benchmark and not int_pools.is_single
),

gains as (
    select
        benchmark,
        agent,
        variant_id,
        coalesce(inject_percent, 0) as elapsed_percent,
        gain,
        gain_reason,
        cell_id,
        unit_id,
        n_trials,
        n_missing,
        n_baseline_trials,
        n_baseline_missing
    from int_voi_units
    where condition <> 'underspecified' and measure = getvariable('timing_measure')
),

measured as (
    select
        benchmark,
        own_agent,
        task_key,
        dimension,
        elapsed_percent,
        cluster_id,
        'commitment' as measure,
        commitment as unit_value,
        reason,
        cell_id,
        null as unit_id,
        n_trials,
        n_missing,
        0 as n_baseline_trials,
        0 as n_baseline_missing
    from committed
    union all
    select
        committed.benchmark,
        committed.own_agent,
        committed.task_key,
        committed.dimension,
        committed.elapsed_percent,
        committed.cluster_id,
        kinds.measure,
        case kinds.measure
            when 'voi' then if(committed.commitment is null, null, gains.gain)
            else gains.gain * (1 - committed.commitment)
        end as unit_value,
        coalesce(gains.gain_reason, committed.reason) as reason,
        gains.cell_id,
        gains.unit_id,
        gains.n_trials,
        gains.n_missing,
        gains.n_baseline_trials,
        gains.n_baseline_missing
    from committed
    cross join (values ('voi'), ('voi_bound')) as kinds (measure)
    inner join gains
        on
            committed.own_benchmark = gains.benchmark
            and committed.own_agent = gains.agent
            and committed.variant_id = gains.variant_id
            and gains.elapsed_percent
            = if(kinds.measure = 'voi', committed.elapsed_percent, 0)
),

weighted as (
    select
        *,
        agent_weight(
            'all',
            own_agent,
            task_key,
            unit_value,
            row(benchmark, dimension, elapsed_percent, measure)
        ) as weight
    from measured
),

estimated as (
    select
        benchmark,
        dimension,
        elapsed_percent,
        measure,
        unit_estimate(
            measure_kind(measure),
            weight * unit_value,
            weight,
            min(reason),
            cluster_id
        ) as estimate,
        sum_once(cell_id, case when unit_value is not null then n_trials end)
        + sum_once(
            unit_id, case when unit_value is not null then n_baseline_trials end
        ) as n_trials,
        sum_once(cell_id, n_missing) + sum_once(unit_id, n_baseline_missing)
            as n_missing
    from weighted
    group by benchmark, dimension, elapsed_percent, measure
)

select
    benchmark,
    dimension,
    'all' as agent,
    elapsed_percent::varchar as timing,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    n_trials,
    n_missing,
    max(estimate.value) filter (where measure = 'voi' and elapsed_percent = 0)
        over (partition by benchmark, dimension)
    > 0 as has_oracle_gap,
    estimate.method,
    estimate.reason
from estimated
