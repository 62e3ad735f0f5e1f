-- view: agent_differences
-- grain: benchmark, condition, measure, agent, other_agent
-- inputs: int_missing_bounds, unit_values
-- outputs:
--   benchmark, condition, measure
--   agent varchar: the agent whose value counts positive
--   other_agent varchar: the agent whose value is subtracted
--   value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing
--   method varchar: sign_flips
--   reason
--   p_value double: test of a mean difference of 0, two-sided
--   p_family double: corrected over all pairs of agents of the benchmark, condition
--       and measure
--   correlation double: of the values of both agents over tasks; null below 3 tasks, or
--       if all values of an agent are equal
--   rank bigint: rank of agent, 1 for the best
--   rank_low bigint: least rank that its differences allow
--   rank_high bigint: largest rank that they allow
--   other_rank bigint: rank of other_agent
--   other_rank_low bigint: least rank that its differences allow
--   other_rank_high bigint: largest rank that they allow
--   worst, best, worst_low, best_high
-- equation: mean of value(agent) - value(other_agent) of the same unit; p_family: step-
--     down max t over joint sign flips of whole tasks; rank = 1 + agents with a larger
--     value; rank_low = 1 + agents shown to be better; rank_high = agents - agents
--     shown to be worse, at 1 - confidence by p_family; pairing leaves about
--     1 - correlation of the variance that separate tasks would have
-- source: docs/metrics.md 5, agents; M. Mogstad, J. P. Romano, A. M. Shaikh and D.
--     Wilhelm, Review of Economic Studies 91 (2024), for the ranks
-- notes: each pair of agents is compared once, on the units that both ran. Under full
--     the units are tasks, otherwise variants. The values of ..._gain_lead are gains
--     from asking, so a row says which agent gains more. The rank sets hold jointly for
--     all agents of a condition and measure. If agents ran different units, their
--     differences need not add up.
with leveled as (
    select
        unit_values.benchmark,
        unit_values.agent,
        unit_values.unit_id,
        unit_values.condition,
        unit_values.measure || '_lead' as measure,
        'gain' as kind,
        unit_values.cluster_id,
        unit_values.task_id,
        unit_values.numerator,
        unit_values.reason,
        unit_values.cell_id,
        unit_values.n_trials,
        unit_values.n_missing,
        bounds.least,
        bounds.most
    from unit_values
    left join int_missing_bounds as bounds
        on
            unit_values.cell_id = bounds.cell_id
            and unit_values.measure = bounds.measure
    where
        unit_values.measure in ('pass_at_1', 'pass_at_k', 'checkpoint_progress')
        and (
            (unit_values.condition = 'full' and unit_values.unit_kind = 'task')
            or (
                unit_values.condition in ('underspecified', 'ask_user')
                and unit_values.unit_kind = 'variant'
            )
        )
),

gained as (
    select
        gains.benchmark,
        gains.agent,
        gains.unit_id,
        'ask_user' as condition,
        gains.measure || '_lead' as measure,
        'double_gain' as kind,
        gains.cluster_id,
        gains.task_id,
        gains.numerator,
        gains.reason,
        gains.cell_id,
        gains.n_trials,
        gains.n_missing,
        asked.least - unasked.most as least,
        asked.most - unasked.least as most
    from unit_values as gains
    left join leveled as asked
        on
            gains.benchmark = asked.benchmark
            and gains.agent = asked.agent
            and gains.unit_id = asked.unit_id
            and asked.condition = 'ask_user'
            and replace(gains.measure, '_gain', '_lead') = asked.measure
    left join leveled as unasked
        on
            gains.benchmark = unasked.benchmark
            and gains.agent = unasked.agent
            and gains.unit_id = unasked.unit_id
            and unasked.condition = 'underspecified'
            and replace(gains.measure, '_gain', '_lead') = unasked.measure
    where
        gains.measure in (
            'pass_at_1_gain', 'pass_at_k_gain', 'checkpoint_progress_gain'
        )
),

valued as (
    select * from leveled
    union all by name
    select * from gained
),

pairs as (
    select
        one.benchmark,
        one.condition,
        one.measure,
        one.agent,
        other.agent as other_agent,
        one.kind,
        one.cluster_id,
        one.task_id,
        case when other.numerator is not null then one.numerator end as own,
        case when one.numerator is not null then other.numerator end as others,
        one.numerator - other.numerator as difference,
        coalesce(one.reason, other.reason) as reason,
        one.least - other.most as least,
        one.most - other.least as most,
        one.cell_id || '|' || other.cell_id as pair_id,
        one.n_trials + other.n_trials as n_trials,
        one.n_missing + other.n_missing as n_missing,
        bool_or(one.n_missing + other.n_missing > 0) over pair as is_incomplete,
        dense_rank() over (order by one.agent, other.agent) as member
    from valued as one
    inner join valued as other
        on
            one.benchmark = other.benchmark
            and one.condition = other.condition
            and one.measure = other.measure
            and one.unit_id = other.unit_id
            and one.agent < other.agent
    window pair as (
        partition by
            one.benchmark, one.condition, one.measure, one.agent, other.agent
    )
),

by_task as (
    select
        benchmark,
        condition,
        measure,
        member,
        avg(own) as own,
        avg(others) as others
    from pairs
    where difference is not null
    group by benchmark, condition, measure, member, task_id
),

correlated as (
    select
        benchmark,
        condition,
        measure,
        member,
        case
            when count(*) > 2 and stddev_pop(own) > 1e-9 and stddev_pop(others) > 1e-9
                then round(corr(own, others), 4)
        end as correlation
    from by_task
    group by benchmark, condition, measure, member
),

families as (
    select
        benchmark,
        condition,
        measure,
        family_test(
            list(
                {
                    'member': member,
                    'cluster': hash(cluster_id),
                    'above': difference,
                    'below': 1.0::double,
                    'base': null::double,
                    'n_base': null::double,
                    'n_own': null::double,
                    'is_one_sided': 0.0::double,
                    'lead': 0.0::double
                }
            ) filter (where difference is not null)
        ) as found
    from pairs
    group by benchmark, condition, measure
),

estimated as (
    select
        benchmark,
        condition,
        measure,
        member,
        any_value(agent) as agent,
        any_value(other_agent) as other_agent,
        unit_estimate(kind, difference, 1, min(reason), cluster_id) as estimate,
        missing_bounds(kind, least, most, 1, is_incomplete, cluster_id) as bounds,
        sum_once(pair_id, case when difference is not null then n_trials end)
            as n_trials,
        sum_once(pair_id, n_missing) as n_missing
    from pairs
    group by benchmark, condition, measure, member
),

tested as (
    select
        estimated.*,
        correlated.correlation,
        greatest(
            estimated.estimate.p_value,
            list_filter(
                families.found, lambda claim: claim.member = estimated.member
            )[1].number
        ) as p_family
    from estimated
    inner join families
        on
            estimated.benchmark = families.benchmark
            and estimated.condition = families.condition
            and estimated.measure = families.measure
    left join correlated
        on
            estimated.benchmark = correlated.benchmark
            and estimated.condition = correlated.condition
            and estimated.measure = correlated.measure
            and estimated.member = correlated.member
),

sides as (
    select
        benchmark,
        condition,
        measure,
        agent,
        estimate.value as difference,
        p_family
    from tested
    union all
    select
        benchmark,
        condition,
        measure,
        other_agent as agent,
        -estimate.value as difference,
        p_family
    from tested
),

ranked as (
    select
        benchmark,
        condition,
        measure,
        agent,
        1 + count(*) filter (where difference < 0) as rank,
        1
        + count(*) filter (
            where
            difference < 0
            and p_family < round(1 - getvariable('confidence'), 12)
        ) as rank_low,
        1
        + count(*)
        - count(*) filter (
            where
            difference > 0
            and p_family < round(1 - getvariable('confidence'), 12)
        ) as rank_high
    from sides
    group by benchmark, condition, measure, agent
)

select
    tested.benchmark,
    tested.condition,
    tested.measure,
    tested.agent,
    tested.other_agent,
    tested.estimate.value,
    tested.estimate.low,
    tested.estimate.high,
    tested.estimate.n_units,
    tested.estimate.n_dropped,
    tested.estimate.n_clusters,
    tested.n_trials,
    tested.n_missing,
    tested.estimate.method,
    tested.estimate.reason,
    significant(tested.estimate.p_value) as p_value,
    significant(tested.p_family) as p_family,
    tested.correlation,
    own.rank,
    own.rank_low,
    own.rank_high,
    others.rank as other_rank,
    others.rank_low as other_rank_low,
    others.rank_high as other_rank_high,
    unnest(bounds_beside(tested.estimate, tested.bounds, tested.n_missing))
from tested
inner join ranked as own
    on
        tested.benchmark = own.benchmark
        and tested.condition = own.condition
        and tested.measure = own.measure
        and tested.agent = own.agent
inner join ranked as others
    on
        tested.benchmark = others.benchmark
        and tested.condition = others.condition
        and tested.measure = others.measure
        and tested.other_agent = others.agent
