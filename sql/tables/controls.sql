-- view: controls
-- grain: benchmark, control_kind, agent, condition, measure
-- inputs: int_paired_values
-- outputs:
--   benchmark
--   control_kind varchar: unmodified, benign-removal, or all
--   agent, condition, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing, method, reason
-- equation: pass_at_k_difference = pass@k(control, or control_ask_user) - pass@k(full)
--     of its task, paired; ask_pct = 100 * trials that asked / trials;
--     questions_per_trial = questions / trials
-- source: docs/metrics.md 3 and 6, controls (ours)
-- notes: units are control variants, which lack no needed information. So the
--     difference should be 0, and every question under control_ask_user is unnecessary.
--     Deviations show how noisy the gains and classes of this store are.
with controls as (
    select *
    from int_paired_values
    where
        condition in ('control', 'control_ask_user')
        and measure in ('pass_at_1', 'pass_at_k', 'ask_pct', 'questions_per_trial')
),

listed as (
    select * from controls
    union all
    select
        * replace (
            measure || '_difference' as measure,
            numerator - base_numerator as numerator,
            pair_reason as reason
        )
    from controls
    where measure in ('pass_at_1', 'pass_at_k')
),

kinds as (
    select
        *,
        unnest(
            [
                'all',
                case
                    when segments_removed > 0 then 'benign-removal'
                    else 'unmodified'
                end
            ]
        ) as control_kind
    from listed
)

select
    benchmark,
    control_kind,
    agent,
    condition,
    measure,
    unnest(
        table_estimate(
            measure,
            numerator,
            denominator,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        )
    )
from kinds
group by benchmark, control_kind, agent, condition, measure
