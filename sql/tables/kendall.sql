-- view: kendall
-- grain: benchmark, agent, other_agent, measure
-- inputs: int_pools, unit_values
-- outputs:
--   benchmark varchar: name of the benchmark; all pools several
--   agent varchar: name of the agent, with part of its digest where names repeat
--   other_agent varchar: the agent that it is compared with
--   measure
--   value double: tau-b, -1 to 1
--   low, high
--   n_units bigint: cells that both agents have
--   n_dropped bigint: cells that only one of them has
--   n_clusters, n_trials, n_missing, method, reason
--   p_value double: test of a correlation of 0, over clusters like the interval
--   p_holm double: p_value, corrected within the benchmark
--   p_asymptotic double: Kendall's p-value, which treats the cells as independent
--   n_ties bigint: pairs of cells that one of the agents does not order
-- equation: tau-b = (concordant - discordant pairs) / sqrt(pairs untied in one ranking
--     * pairs untied in the other)
-- source: docs/metrics.md 4, cross-model consistency [Ask Early tables 3 and 7];
--     parameter `kendall_cells`
-- notes: a cell is a variant under inject_10 to inject_90; kendall_cells = all adds
--     full and underspecified. Each pair of agents has one row, in which agent is the
--     first by name. The value is null if there are fewer than three common cells
--     (too_few_cells), or if all values of an agent are equal (no_order). p_asymptotic
--     treats cells as independent, although the cells of one variant are not. The
--     interval and p_value resample clusters.
with cells as (
    select
        int_pools.pool as benchmark,
        concat_ws('|', cells.benchmark, cells.unit_id, cells.condition)
            as shared_id,
        cells.agent,
        round(cells.unit_value, 9) as unit_value,
        cells.cluster_id,
        cells.cell_id,
        cells.n_trials,
        cells.n_missing
    from unit_values as cells
    inner join int_pools
        on cells.benchmark = int_pools.benchmark and not int_pools.is_single
    where
        cells.unit_kind = 'variant'
        and cells.measure = 'pass_at_k'
        and (
            cells.condition like 'inject%'
            or (
                getvariable('kendall_cells') = 'all'
                and cells.condition in ('full', 'underspecified')
            )
        )
),

agents as (
    select distinct
        benchmark,
        agent
    from cells
),

pairs as (
    select
        agents.benchmark,
        agents.agent,
        others.agent as other_agent
    from agents
    inner join agents as others
        on agents.benchmark = others.benchmark and agents.agent < others.agent
),

placed as (
    select
        pairs.benchmark,
        pairs.agent,
        pairs.other_agent,
        cells.shared_id,
        any_value(cells.unit_value) filter (where cells.agent = pairs.agent)
            as own_value,
        any_value(cells.unit_value) filter (where cells.agent = pairs.other_agent)
            as other_value,
        any_value(cells.cluster_id) as cluster_id
    from pairs
    inner join cells
        on
            pairs.benchmark = cells.benchmark
            and cells.agent in (pairs.agent, pairs.other_agent)
    group by pairs.benchmark, pairs.agent, pairs.other_agent, cells.shared_id
),

compared as (
    select
        *,
        own_value is not null and other_value is not null as is_common
    from placed
),

agreements as (
    select
        benchmark,
        agent,
        other_agent,
        count(*) filter (where is_common) as n_units,
        count(*) filter (where not is_common) as n_dropped,
        case
            when count(*) filter (where is_common) >= 3
                then rank_agreement(
                    list(own_value order by own_value, other_value)
                    filter (where is_common),
                    list(other_value order by own_value, other_value)
                    filter (where is_common)
                )
        end as found,
        tau_estimate(
            list(
                {
                    'cluster': hash(cluster_id),
                    'one': own_value::double,
                    'other': other_value::double
                }
            ) filter (where is_common)
        ) as estimate
    from compared
    group by benchmark, agent, other_agent
),

counted as (
    select
        compared.benchmark,
        compared.agent,
        compared.other_agent,
        sum_once(
            cells.cell_id, case when compared.is_common then cells.n_trials end
        ) as n_trials,
        sum_once(cells.cell_id, cells.n_missing) as n_missing
    from compared
    inner join cells
        on
            compared.benchmark = cells.benchmark
            and compared.shared_id = cells.shared_id
            and cells.agent in (compared.agent, compared.other_agent)
    group by compared.benchmark, compared.agent, compared.other_agent
)

select
    estimated.benchmark,
    estimated.agent,
    estimated.other_agent,
    'kendall_tau' as measure,
    estimated.estimate.value,
    estimated.estimate.low,
    estimated.estimate.high,
    estimated.n_units,
    estimated.n_dropped,
    estimated.estimate.n_clusters,
    counted.n_trials,
    counted.n_missing,
    estimated.estimate.method,
    estimated.estimate.reason,
    significant(estimated.estimate.p_value) as p_value,
    significant(
        holm(
            estimated.estimate.p_value,
            list(estimated.estimate.p_value) over (partition by estimated.benchmark)
        )
    ) as p_holm,
    significant(estimated.found.p_value) as p_asymptotic,
    estimated.found.n_ties
from agreements as estimated
inner join counted
    on
        estimated.benchmark = counted.benchmark
        and estimated.agent = counted.agent
        and estimated.other_agent = counted.other_agent
