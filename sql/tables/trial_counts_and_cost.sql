-- view: trial_counts_and_cost
-- grain: benchmark, agent, role, condition, purpose
-- inputs: int_attempts, int_calls_summed, int_tool_times, int_trials,
--     int_trials_measured, int_trials_screened
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   role varchar: evaluated, classifier, or all
--   condition varchar: condition of the trials, or all
--   purpose varchar: who used the model; all is the sum
--   n_cells bigint: cells of trials
--   n_planned bigint: trials planned, at least those seen
--   n_trials bigint: valid trials
--   n_missing bigint: planned trials neither valid nor running
--   n_running bigint: trials running now
--   n_calls bigint: replies
--   input_tokens bigint: tokens sent
--   output_tokens bigint: tokens received
--   cost_usd double: USD; null if a price is unknown
--   n_units bigint: cells with a valid trial
--   tokens_per_trial double: mean per valid trial
--   tokens_per_trial_low double: lower bound
--   tokens_per_trial_high double: upper bound
--   tokens_reason varchar: why tokens per trial or their interval are null
--   cost_usd_per_trial double: mean per valid trial, USD
--   cost_usd_per_trial_low double: lower bound, USD
--   cost_usd_per_trial_high double: upper bound, USD
--   cost_reason varchar: why the cost per trial or its interval is null
--   attempts bigint: attempts started, whatever became of them
--   failed_attempts bigint: attempts that ended and do not count
--   failed_tokens bigint: their tokens
--   failed_cost_usd double: their USD; null if a price is unknown
--   model_seconds double: time of model calls
--   tool_seconds double: time of actions
--   wall_seconds double: wall time of the attempts that count
--   failed_wall_seconds double: their wall time
-- equation: sums and means over valid trials; n_missing = planned - valid - running
-- source: docs/metrics.md 6 and 8 [Ask Early table 9]; parameter `experiment`
-- notes: every trial that was paid for: classifying, new_task and superseded ones too
--     (the latter are never missing). all stands for a sum over that key. Unknown
--     prices give a null cost (reason unknown_price). attempts, failed_* and *_seconds
--     depend on the machine and on interruptions, the other columns do not. Tool and
--     wall time stand in the rows of purpose all.
with trials_counted as (
    select
        trials.trial_id,
        trials.benchmark,
        trials.agent,
        trials.role,
        trials.condition,
        trials.task_id,
        md5_number(
            concat_ws(
                '|',
                trials.benchmark,
                trials.agent,
                trials.role,
                trials.condition,
                trials.task_digest,
                trials.variant_digest
            )
        ) as cell_id,
        trials.trial_state,
        trials.trials_per_cell,
        trials.attempts,
        trials.failed_attempts,
        coalesce(screened.exclusion <> 'superseded', true) as is_current
    from int_trials_measured as trials
    inner join int_trials_screened as screened
        on trials.trial_id = screened.trial_id
    where coalesce(screened.exclusion <> 'other_experiment', true)
),

cells as (
    select
        cell_id,
        any_value(benchmark) as benchmark,
        any_value(agent) as agent,
        any_value(role) as role,
        any_value(condition) as condition,
        any_value(task_id) as task_id,
        count(*) filter (where trial_state = 'valid') as n_trials,
        count(*) filter (where trial_state = 'running') as n_running,
        case
            when bool_and(is_current)
                then greatest(coalesce(max(trials_per_cell), 0), count(*))
            else count(*) filter (where trial_state <> 'missing')
        end as n_planned,
        sum(attempts)::bigint as attempts,
        sum(failed_attempts)::bigint as failed_attempts
    from trials_counted
    group by cell_id
),

attempts_placed as (
    select
        attempts.stream_id,
        counted.cell_id,
        int_trials.stream_id is not null as is_counted,
        int_trials.stream_id is null and attempts.attempt_state <> 'running'
            as is_failed,
        attempts.duration_ms
    from trials_counted as counted
    inner join int_attempts as attempts
        on counted.trial_id = attempts.trial_id
    left join int_trials
        on attempts.stream_id = int_trials.stream_id
),

calls as (
    select
        placed.cell_id,
        coalesce(calls.purpose, 'all') as purpose,
        sum(calls.n_calls) filter (where placed.is_counted) as n_calls,
        sum(calls.input_tokens) filter (where placed.is_counted) as input_tokens,
        sum(calls.output_tokens) filter (where placed.is_counted) as output_tokens,
        bool_and(calls.cost_usd is not null) filter (where placed.is_counted)
            as has_every_price,
        exact_sum(case when placed.is_counted then calls.cost_usd end) as cost_usd,
        sum(calls.input_tokens + calls.output_tokens)
        filter (where placed.is_failed) as failed_tokens,
        bool_and(calls.cost_usd is not null) filter (where placed.is_failed)
            as has_every_failed_price,
        exact_sum(case when placed.is_failed then calls.cost_usd end)
            as failed_cost_usd,
        exact_sum(case when placed.is_counted then calls.model_seconds end)
            as model_seconds
    from attempts_placed as placed
    inner join int_calls_summed as calls
        on placed.stream_id = calls.stream_id
    group by
        grouping sets ((placed.cell_id, calls.purpose), (placed.cell_id))
),

times as (
    select
        placed.cell_id,
        exact_sum(case when placed.is_counted then tools.tool_seconds end)
            as tool_seconds,
        exact_sum(case when placed.is_counted then placed.duration_ms end) / 1000
            as wall_seconds,
        exact_sum(case when not placed.is_counted then placed.duration_ms end) / 1000
            as failed_wall_seconds
    from attempts_placed as placed
    left join int_tool_times as tools
        on placed.stream_id = tools.stream_id
    group by placed.cell_id
),

purposes as (
    select
        cell_id,
        unnest(['agent', 'user_simulator', 'grader_and_judge', 'all']) as purpose
    from cells
),

cell_costs as (
    select
        purposes.cell_id,
        purposes.purpose,
        coalesce(calls.n_calls, 0)::bigint as n_calls,
        coalesce(calls.input_tokens, 0)::bigint as input_tokens,
        coalesce(calls.output_tokens, 0)::bigint as output_tokens,
        coalesce(calls.has_every_price, true) as has_every_price,
        coalesce(calls.cost_usd, 0) as cost_usd,
        coalesce(calls.failed_tokens, 0)::bigint as failed_tokens,
        coalesce(calls.has_every_failed_price, true) as has_every_failed_price,
        coalesce(calls.failed_cost_usd, 0) as failed_cost_usd,
        coalesce(calls.model_seconds, 0) as model_seconds,
        coalesce(times.tool_seconds, 0) as tool_seconds,
        coalesce(times.wall_seconds, 0) as wall_seconds,
        coalesce(times.failed_wall_seconds, 0) as failed_wall_seconds
    from purposes
    left join calls
        on
            purposes.cell_id = calls.cell_id
            and purposes.purpose = calls.purpose
    left join times
        on purposes.cell_id = times.cell_id
),

tasks as (
    select
        benchmark,
        task_id,
        row_number() over (order by benchmark, task_id) - 1 as cluster_index,
        count(*) over () as cluster_count
    from cells
    group by benchmark, task_id
),

joined as (
    select
        cells.cell_id,
        cells.benchmark,
        cells.agent,
        cells.role,
        cells.condition,
        cell_costs.purpose,
        tasks.cluster_index,
        tasks.cluster_count,
        nullif(cells.n_trials, 0) as n_valid,
        cells.n_trials,
        cells.n_running,
        cells.n_planned,
        cells.attempts,
        cells.failed_attempts,
        cell_costs.n_calls,
        cell_costs.input_tokens,
        cell_costs.output_tokens,
        cell_costs.has_every_price,
        cell_costs.cost_usd,
        cell_costs.failed_tokens,
        cell_costs.has_every_failed_price,
        cell_costs.failed_cost_usd,
        cell_costs.model_seconds,
        cell_costs.tool_seconds,
        cell_costs.wall_seconds,
        cell_costs.failed_wall_seconds
    from cells
    inner join cell_costs on cells.cell_id = cell_costs.cell_id
    inner join tasks
        on
            cells.benchmark = tasks.benchmark
            and cells.task_id = tasks.task_id
),

grouped as (
    select
        coalesce(benchmark, 'all') as benchmark,
        coalesce(agent, 'all') as agent,
        coalesce(role, 'all') as role,
        coalesce(condition, 'all') as condition,
        purpose,
        count(*) as n_cells,
        sum(n_planned)::bigint as n_planned,
        sum(n_trials)::bigint as n_trials,
        sum(n_planned - n_trials - n_running)::bigint as n_missing,
        sum(n_running)::bigint as n_running,
        sum(n_calls)::bigint as n_calls,
        sum(input_tokens)::bigint as input_tokens,
        sum(output_tokens)::bigint as output_tokens,
        case
            when bool_and(has_every_price)
                then round(exact_sum(cost_usd), 6)
        end as cost_usd,
        ratio_estimate(
            case when n_valid is not null then input_tokens + output_tokens end,
            n_valid,
            'no_valid_trials',
            cluster_index,
            cluster_count
        ) as tokens,
        ratio_estimate(
            case when n_valid is not null and has_every_price then cost_usd end,
            n_valid,
            'no_valid_trials',
            cluster_index,
            cluster_count
        ) as cost,
        bool_and(has_every_price) as has_every_price,
        sum(attempts)::bigint as attempts,
        sum(failed_attempts)::bigint as failed_attempts,
        sum(failed_tokens)::bigint as failed_tokens,
        case
            when bool_and(has_every_failed_price)
                then round(exact_sum(failed_cost_usd), 6)
        end as failed_cost_usd,
        round(exact_sum(model_seconds), 3) as model_seconds,
        case when purpose = 'all' then round(exact_sum(tool_seconds), 3) end
            as tool_seconds,
        case when purpose = 'all' then round(exact_sum(wall_seconds), 3) end
            as wall_seconds,
        case when purpose = 'all' then round(exact_sum(failed_wall_seconds), 3) end
            as failed_wall_seconds
    from joined
    group by
        grouping sets (
            (benchmark, agent, role, condition, purpose),
            (benchmark, agent, role, purpose),
            (benchmark, purpose),
            (purpose)
        )
)

select
    benchmark,
    agent,
    role,
    condition,
    purpose,
    n_cells,
    n_planned,
    n_trials,
    n_missing,
    n_running,
    n_calls,
    input_tokens,
    output_tokens,
    cost_usd,
    tokens.n_units,
    tokens.value as tokens_per_trial,
    tokens.low as tokens_per_trial_low,
    tokens.high as tokens_per_trial_high,
    tokens.reason as tokens_reason,
    case when has_every_price then cost.value end as cost_usd_per_trial,
    case when has_every_price then cost.low end as cost_usd_per_trial_low,
    case when has_every_price then cost.high end as cost_usd_per_trial_high,
    case when has_every_price then cost.reason else 'unknown_price' end
        as cost_reason,
    attempts,
    failed_attempts,
    failed_tokens,
    failed_cost_usd,
    model_seconds,
    tool_seconds,
    wall_seconds,
    failed_wall_seconds
from grouped
