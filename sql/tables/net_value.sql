-- view: net_value
-- grain: benchmark, agent, measure, question_cost_pp
-- inputs: unit_values
-- outputs:
--   benchmark, agent
--   question_cost_pp double: assumed cost of a question, percentage points; null for
--       break-even
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing,
--   method, reason
-- equation: with g the gain in percentage points and q the questions per trial of the
--     ask arm of a paired variant: net value = mean(g - cost * q); break-even = mean(g)
--     / mean(q)
-- source: docs/metrics.md 3 and 6, net value (ours)
-- notes: the paired variants are the same as for the gains of overall. The net value is
--     linear in the cost per question, and is shown for a few costs. It is zero at
--     break-even, the highest cost per question at which asking pays. The break-even is
--     null if no agent asked (nobody_asked), and negative if the gain is negative. A
--     net value is at most 100, and so is its upper bound.
with paired as (
    select
        gains.*,
        100 * gains.numerator as gain_pp,
        asking.unit_value as questions_per_trial,
        unnest([0, 1, 2, 5, 10, 20, 50, null]::double[]) as question_cost_pp
    from unit_values as gains
    left join unit_values as asking
        on
            gains.benchmark = asking.benchmark
            and gains.agent = asking.agent
            and gains.unit_kind = asking.unit_kind
            and gains.unit_id = asking.unit_id
            and gains.condition = asking.condition
            and asking.measure = 'questions_per_trial'
    where gains.measure like '%\_gain' escape '\'
),

priced as (
    select
        * replace (
            case measure
                when 'pass_at_1_gain' then 'pass_at_1'
                when 'pass_at_k_gain' then 'pass'
                else 'progress'
            end
            || case
                when question_cost_pp is null then '_break_even_pp'
                else '_net_value_pp'
            end as measure,
            case
                when question_cost_pp = 0 then gain_pp
                when questions_per_trial is not null
                    then gain_pp - coalesce(question_cost_pp, 0) * questions_per_trial
            end as numerator,
            case when question_cost_pp is null then questions_per_trial else 1 end
                as denominator,
            case
                when gain_pp is null then reason
                when questions_per_trial is null then 'unknown_actions'
            end as reason
        )
    from paired
),

estimated as (
    select
        benchmark,
        agent,
        question_cost_pp,
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
    from priced
    group by benchmark, agent, question_cost_pp, measure
)

select
    * replace (
        case
            when high > 100 and question_cost_pp is not null then 100 else high
        end as high
    )
from estimated
