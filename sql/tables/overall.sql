-- view: overall
-- grain: benchmark, agent, condition, measure
-- inputs: int_agent_arms, int_paired_values, int_recovered_shares, unit_values
-- outputs:
--   benchmark, agent
--   medium varchar: how the agent asks if it may: mcp, built_in, prose, none or unknown
--   condition, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing, method, reason
-- equation: means over units; gain = value(condition) - value(underspecified), paired;
--     ..._recovered_share = (value(ask_user) - value(underspecified)) / (value(full) -
--     value(underspecified)), ..._share_of_full = value(ask_user) / value(full), over
--     the variants that have all of them
-- source: docs/metrics.md 3 and 6 [LHAW table 3; also pass^k and injections]
-- notes: units are tasks under full, and variants otherwise. Gains are in the rows of
--     the condition that gains, and measures of asking in those of the conditions that
--     may ask. pass@k, pass^k and progress are fractions. A recovered share may be
--     below 0 or above 1. It is null if full does not exceed underspecified
--     (no_oracle_gap), and its interval has no bounds if that is uncertain (unbounded).
--     With intention_to_treat, a trial that ended before its injection counts under its
--     planned condition.
with told_gains as (
    select
        * replace (
            measure || '_gain' as measure,
            numerator - base_numerator as numerator,
            pair_reason as reason,
            concat_ws('|', cell_id, base_cell_id) as cell_id,
            n_trials + coalesce(n_base_trials, 0) as n_trials,
            n_missing + coalesce(n_base_missing, 0) as n_missing
        )
    from int_paired_values
    where base_condition = 'underspecified' and measure <> 'pass_hat_k'
),

listed as (
    select *
    from unit_values
    where
        (unit_kind = 'task' and condition = 'full')
        or (
            unit_kind = 'variant'
            and (
                condition like 'inject\_%' escape '\'
                or (
                    condition in ('underspecified', 'ask_user')
                    and measure <> 'questions_per_trial'
                )
            )
        )
    union all by name
    select * from told_gains
    union all by name
    select * from int_recovered_shares
)

select
    listed.benchmark,
    listed.agent,
    any_value(arms.medium) as medium,
    listed.condition,
    listed.measure,
    unnest(
        table_estimate(
            listed.measure,
            listed.numerator,
            listed.denominator,
            listed.reason,
            listed.cluster_id,
            listed.cell_id,
            listed.n_trials,
            listed.n_missing
        )
    )
from listed
left join int_agent_arms as arms
    on listed.benchmark = arms.benchmark and listed.agent = arms.agent
group by listed.benchmark, listed.agent, listed.condition, listed.measure
