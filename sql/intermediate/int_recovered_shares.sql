-- view: int_recovered_shares
-- grain: benchmark, agent, unit_id, condition, measure
-- inputs: unit_values
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
-- notes: agents that never ran full have no rows. A variant without a value in one arm
--     has no numerator. As value(full) is the value of the variant's task, value(full)
--     - value(underspecified) = value(full) - value(ask_user) + gain.
with gaps as (
    select
        asked.*,
        full_values.numerator as full_numerator,
        full_values.cell_id as full_cell_id,
        case
            when full_values.unit_id is null then 'one_arm_only'
            else coalesce(asked.reason, full_values.reason)
        end as pair_reason,
        gains.numerator as gain,
        coalesce(pair_reason, gains.reason) as gap_reason,
        gains.cell_id as gain_cell_id,
        gains.n_trials as n_gain_trials,
        gains.n_missing as n_gain_missing,
        coalesce(full_values.n_trials, 0) as n_full_trials,
        coalesce(full_values.n_missing, 0) as n_full_missing
    from unit_values as asked
    inner join unit_values as gains
        on
            asked.benchmark = gains.benchmark
            and asked.agent = gains.agent
            and asked.unit_id = gains.unit_id
            and gains.unit_kind = 'variant'
            and gains.measure = asked.measure || '_gain'
    left join unit_values as full_values
        on
            asked.benchmark = full_values.benchmark
            and asked.agent = full_values.agent
            and asked.unit_id = full_values.unit_id
            and full_values.unit_kind = 'variant'
            and full_values.condition = 'full'
            and asked.measure = full_values.measure
    where asked.unit_kind = 'variant' and asked.condition = 'ask_user'
    qualify
        bool_or(full_values.unit_id is not null) over (
            partition by asked.benchmark, asked.agent
        )
)

select
    benchmark,
    agent,
    unit_id,
    condition,
    measure || '_recovered_share' as measure,
    case when gap_reason is null then gain end as numerator,
    full_numerator - numerator + gain as denominator,
    gap_reason as reason,
    cluster_id,
    concat_ws('|', gain_cell_id, full_cell_id) as cell_id,
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
    full_numerator as denominator,
    pair_reason as reason,
    cluster_id,
    concat_ws('|', cell_id, full_cell_id) as cell_id,
    n_trials + n_full_trials as n_trials,
    n_missing + n_full_missing as n_missing
from gaps
