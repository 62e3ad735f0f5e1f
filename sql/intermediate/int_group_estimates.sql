-- view: int_group_estimates
-- grain: table_name, benchmark, agent, group_name, subgroup_name, condition, measure
-- inputs: int_budget_units, int_candidate_units, int_control_units, int_group_units,
--     int_net_value_units, int_over_asking_units, int_tasks_selected
-- outputs:
--   table_name varchar: table that the row is for
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   group_name varchar: first key of the row in its table; all
--   subgroup_name varchar: second key of the row in its table; all
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   estimate struct: value, low, high, n_units, n_dropped, method, reason
--   total double: sum above the line
--   least double: smallest value of a unit
--   most double: largest value of a unit
--   n_agents bigint: agents with a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
-- equation: sum(numerator) / sum(denominator) over the units with a numerator;
--     ..._per_question = ..._per_question_per_variant / number of variants
-- source: docs/metrics.md 3 and 5
-- notes: one view for the rows of many tables, because planning an estimate costs more
--     than computing it. Wilson where every unit is a pass@k of 0 or 1 with n = k, else
--     the cluster bootstrap. Nothing below the line: nobody_asked, because only
--     questions can be none. The per-question interval takes the number of variants as
--     given.
with selected_tasks as (
    select
        'task_selection' as table_name,
        benchmark,
        'all' as agent,
        'all' as own_agent,
        unnest(['all', domain]) as group_name,
        'all' as subgroup_name,
        'full' as condition,
        'checkpoint_progress' as measure,
        task_id as unit_id,
        checkpoint_progress as numerator,
        1.0::double as denominator,
        false as is_binary,
        null::varchar as reason,
        n_trials,
        n_missing,
        cluster_index,
        cluster_count
    from int_tasks_selected
    where is_selected
),

units as (
    select * from int_group_units
    union all
    select * from int_candidate_units
    union all
    select * from int_net_value_units
    union all
    select * from int_over_asking_units
    union all
    select * from int_control_units
    union all
    select * from int_budget_units
    union all
    select * from selected_tasks
),

resampled as (
    select
        table_name,
        benchmark,
        agent,
        group_name,
        subgroup_name,
        condition,
        measure,
        case
            when
                bool_and(is_binary and numerator in (0, 1))
                filter (where numerator is not null)
                then wilson_bounds(
                    count(*) filter (where numerator = 1),
                    count(numerator),
                    getvariable('confidence')
                )
            else ratio_interval(numerator, denominator, cluster_index, cluster_count)
        end as bounds,
        sum(numerator) as total,
        sum(denominator) filter (where numerator is not null) as total_below,
        min(numerator) as least,
        max(numerator) as most,
        count(numerator) as n_units,
        count(*) - count(numerator) as n_dropped,
        min(reason) as unit_reason,
        count(distinct own_agent) filter (where numerator is not null) as n_agents,
        coalesce(
            sum(n_trials) filter (where numerator is not null), 0
        )::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from units
    group by
        table_name,
        benchmark,
        agent,
        group_name,
        subgroup_name,
        condition,
        measure
),

scaled as (
    select
        *,
        unnest(
            case
                when measure like '%_per_question_per_variant' then [1, n_units]
                else [1]
            end
        ) as divisor,
        unnest(
            case
                when measure like '%_per_question_per_variant'
                    then [measure, replace(measure, '_per_variant', '')]
                else [measure]
            end
        ) as scaled_measure
    from resampled
)

select
    table_name,
    benchmark,
    agent,
    group_name,
    subgroup_name,
    condition,
    scaled_measure as measure,
    as_estimate(
        total / nullif(total_below, 0) / nullif(divisor, 0),
        case
            when bounds is not null
                then struct_pack(
                    low := round(bounds.low / divisor, 6),
                    high := round(bounds.high / divisor, 6),
                    method := bounds.method
                )
        end,
        n_units,
        n_dropped,
        case when n_units = 0 then unit_reason else 'nobody_asked' end
    ) as estimate,
    total,
    least,
    most,
    n_agents,
    n_trials,
    n_missing
from scaled
