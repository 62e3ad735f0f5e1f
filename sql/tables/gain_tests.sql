-- view: gain_tests
-- grain: split, level, benchmark, agent, measure
-- inputs: int_gain_units
-- outputs:
--   split varchar: overall, ambiguity_class or dimension
--   level varchar: the class or dimension; all
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
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
--   p_value double: of no mean gain, two-sided
--   p_holm double: the same, corrected within the split and measure
--   n_clusters bigint: clusters whose arms are exchanged
--   test varchar: exact or monte_carlo; null without units
--   noise_floor double: standard deviation of the gain if asking changed nothing
--   trials_needed bigint: trials in each arm that would show `wanted_gain_pp`
--   power_reason varchar: why trials_needed is null
-- equation: p: arms of a cluster are exchanged; Holm: max over smaller p of
--     p * (m - rank + 1); noise floor: both arms drawn from the trials of both, worked
--     out; trials needed: the fewest n with (z(1 - level / 2) + z(power)) * noise(n)
--     at most the wanted gain
-- source: docs/metrics.md 5; parameters `permutations`, `power`, `wanted_gain_pp`
-- notes: gains of ask_user over underspecified, as in overall, by_class and
--     by_dimension_*. A family of Holm holds all benchmarks and agents of one split and
--     measure. level of the tests = 1 - confidence. What is needed holds for these
--     variants, and where pass@k or progress vary as they did.
with estimated as (
    select
        split,
        level,
        benchmark,
        agent,
        measure || '_gain' as measure,
        mean_estimate(gain, reason, cluster_index, cluster_count, false) as estimate,
        sum_once(pair_id, case when gain is not null then n_trials end) as n_trials,
        sum_once(pair_id, n_missing) as n_missing,
        paired_test(gain, cluster_index) as tested,
        case measure
            when 'pass_at_k'
                then pass_power(
                    list(n_asked order by pair_id, position)
                    filter (where gain is not null),
                    list(n_unasked order by pair_id, position)
                    filter (where gain is not null),
                    list(n_success order by pair_id, position)
                    filter (where gain is not null),
                    getvariable('k'),
                    getvariable('wanted_gain_pp') / 100,
                    1 - getvariable('confidence'),
                    getvariable('power')
                )
            else progress_power(
                list(n_asked order by pair_id, position)
                filter (where gain is not null),
                list(n_unasked order by pair_id, position)
                filter (where gain is not null),
                list(progress_variance order by pair_id, position)
                filter (where gain is not null),
                getvariable('wanted_gain_pp') / 100,
                1 - getvariable('confidence'),
                getvariable('power')
            )
        end as seen
    from int_gain_units
    group by split, level, benchmark, agent, measure
),

ranked as (
    select
        *,
        tested.p_value
        * (
            count(tested.p_value) over (partition by split, measure)
            - row_number()
                over (
                    partition by split, measure order by tested.p_value nulls last
                )
            + 1
        ) as stepped
    from estimated
)

select
    split,
    level,
    benchmark,
    agent,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason,
    round(tested.p_value, 6) as p_value,
    case
        when tested.p_value is not null
            then round(
                least(
                    1,
                    max(stepped) over (
                        partition by split, measure
                        order by tested.p_value nulls last
                    )
                ),
                6
            )
    end as p_holm,
    coalesce(tested.n, 0) as n_clusters,
    tested.method as test,
    round(seen.noise_floor, 6) as noise_floor,
    seen.trials_needed,
    case
        when seen.trials_needed is not null then null
        when estimate.n_units = 0 then estimate.reason
        when seen.noise_floor = 0 then 'no_variation'
        else 'more_than_1000'
    end as power_reason
from ranked
