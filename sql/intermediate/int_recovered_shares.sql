-- view: int_recovered_shares
-- grain: benchmark, agent, unit_id, condition, measure
-- inputs: int_paired_values, unit_values
-- outputs:
--   benchmark, agent
--   unit_id varchar: variant id
--   condition varchar: ask_user
--   measure varchar: pass_at_1, pass_at_k or checkpoint_progress, followed by
--       _recovered_share or _share_of_full
--   numerator double: value(ask_user) - value(underspecified), or value(ask_user);
--       null without a value
--   denominator double: value(full) - value(underspecified), or value(full)
--   reason, cluster_id, cell_id
--   n_trials bigint: valid trials of the two or three arms
--   n_missing
-- equation: share of a set of variants = sum(numerator) / sum(denominator)
-- source: docs/metrics.md 3
-- notes: agents that never ran full have none. A variant without a value in one arm has
--     no numerator. As value(full) is that of the variant's task, value(full) -
--     value(underspecified) = value(full) - value(ask_user) + gain.
with gaps as (
    select
        asked.*,
        gains.numerator as gain,
        coalesce(asked.pair_reason, gains.reason) as gap_reason,
        gains.cell_id as gain_cell_id,
        gains.n_trials as n_gain_trials,
        gains.n_missing as n_gain_missing,
        coalesce(asked.n_base_trials, 0) as n_full_trials,
        coalesce(asked.n_base_missing, 0) as n_full_missing
    from int_paired_values as asked
    inner join unit_values as gains
        on
            asked.benchmark = gains.benchmark
            and asked.agent = gains.agent
            and asked.unit_id = gains.unit_id
            and gains.unit_kind = 'variant'
            and gains.measure = asked.measure || '_gain'
    where
        asked.condition = 'ask_user'
        and asked.base_condition = 'full'
        and asked.measure <> 'pass_hat_k'
    qualify
        bool_or(asked.has_base) over (partition by asked.benchmark, asked.agent)
)

select
    benchmark,
    agent,
    unit_id,
    condition,
    measure || '_recovered_share' as measure,
    case when gap_reason is null then gain end as numerator,
    base_numerator - numerator + gain as denominator,
    gap_reason as reason,
    cluster_id,
    concat_ws('|', gain_cell_id, base_cell_id) as cell_id,
    n_gain_trials + n_full_trials as n_trials,
    n_gain_missing + n_full_missing as n_missing
from gaps
union all
select
    benchmark,
    agent,
    unit_id,
    condition,
    measure || '_share_of_full' as measure,
    case when pair_reason is null then numerator end as numerator,
    base_numerator as denominator,
    pair_reason as reason,
    cluster_id,
    concat_ws('|', cell_id, base_cell_id) as cell_id,
    n_trials + n_full_trials as n_trials,
    n_missing + n_full_missing as n_missing
from gaps
