-- view: int_net_value_units
-- grain: table_name, benchmark, agent, own_agent, group_name, subgroup_name, condition,
--     measure, unit_id
-- inputs: int_variant_gains, int_variant_values
-- outputs:
--   table_name varchar: table that the row is for
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   own_agent varchar: agent that did it, where agent is all
--   group_name varchar: first key of the row in its table; all
--   subgroup_name varchar: second key of the row in its table; all
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   unit_id varchar: task or variant id
--   numerator double: above the line
--   denominator double: below the line; 1 for a mean
--   is_binary boolean: n = k, so pass@k is 0 or 1
--   reason varchar: why something is null
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
-- equation: with g the gain in percentage points and q the questions per trial of the
--     ask arm: g - cost * q, and for break-even g above q
-- source: docs/metrics.md 3, net value (ours)
-- notes: the paired variants of int_variant_gains, at each cost of a question in
--     percentage points (group_name), and without one for break-even.
with paired as (
    select
        gains.benchmark,
        gains.agent,
        case gains.measure when 'pass_at_k' then 'pass' else 'progress' end
            as short_name,
        gains.variant_id,
        100 * gains.gain as gain_pp,
        asked.n_questions / nullif(asked.n_trials, 0) as questions_per_trial,
        gains.reason,
        gains.n_trials,
        gains.n_missing,
        gains.cluster_index,
        gains.cluster_count
    from int_variant_gains as gains
    left join int_variant_values as asked
        on
            gains.benchmark = asked.benchmark
            and gains.agent = asked.agent
            and gains.variant_id = asked.variant_id
            and gains.measure = asked.measure
            and asked.condition = 'ask_user'
),

priced as (
    select
        *,
        unnest([0, 1, 2, 5, 10, 20, 50, null]::double[]) as question_cost_pp
    from paired
)

select
    'net_value' as table_name,
    benchmark,
    agent,
    agent as own_agent,
    coalesce(question_cost_pp::varchar, 'break_even') as group_name,
    'all' as subgroup_name,
    'ask_user' as condition,
    short_name
    || case
        when question_cost_pp is null then '_break_even_pp'
        else '_net_value_pp'
    end as measure,
    variant_id as unit_id,
    case
        when question_cost_pp = 0 then gain_pp
        when questions_per_trial is not null
            then gain_pp - coalesce(question_cost_pp, 0) * questions_per_trial
    end as numerator,
    case when question_cost_pp is null then questions_per_trial else 1 end
        as denominator,
    false as is_binary,
    case
        when gain_pp is null then reason
        when questions_per_trial is null then 'unknown_actions'
    end as reason,
    n_trials,
    n_missing,
    cluster_index,
    cluster_count
from priced
