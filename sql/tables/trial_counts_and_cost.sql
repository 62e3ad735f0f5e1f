-- view: trial_counts_and_cost
-- grain: benchmark, agent, role, condition, purpose
-- inputs: costs, int_attempts, int_attempts_started, int_tool_times, int_trials,
--     int_trials_measured, int_trials_screened
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   role varchar: evaluated, classifier, or all
--   condition varchar: condition of the trials, or all
--   purpose varchar: who used the model: agent, user_simulator, grader_and_judge, or
--       judging afterwards; all is the sum
--   n_cells bigint: cells of trials
--   n_planned bigint: trials planned, at least those seen
--   n_trials bigint: valid trials
--   n_missing bigint: planned trials neither valid nor running
--   n_running bigint: trials running now
--   n_calls bigint: replies; null if unknown
--   input_tokens bigint: tokens sent; null if unknown
--   output_tokens bigint: tokens received; null if unknown
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
--   failed_tokens bigint: their tokens; null if unknown
--   failed_cost_usd double: their USD; null if a price is unknown
--   model_seconds double: time of model calls; null if unknown
--   tool_seconds double: time of actions; null if unknown
--   wall_seconds double: wall time of the attempts that count; null if unknown
--   failed_wall_seconds double: that of those that ended and do not; null if unknown
-- equation: sums and means over valid trials; n_missing = planned - valid - running
-- source: docs/metrics.md 6 and 8 [Ask Early table 9]; parameter `experiment`
-- notes: every trial that was paid for: classifying, new_task and superseded ones too
--     (the latter are never missing). all stands for a sum over that key. Unknown
--     prices give a null cost (reason unknown_price), unknown tokens, calls and times
--     null sums (unknown_tokens); nobody knows how long an interrupted attempt took.
--     attempts, failed_* and *_seconds depend on the machine and on interruptions, the
--     other columns do not. Tool and wall time stand in the rows of purpose all.
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
        attempts.duration_ms,
        case
            when tools.stream_id is not null then tools.tool_seconds
            when not started.is_imported or attempts.recorded_action_count = 0 then 0
        end as tool_seconds
    from trials_counted as counted
    inner join int_attempts as attempts
        on counted.trial_id = attempts.trial_id
    inner join int_attempts_started as started
        on attempts.stream_id = started.stream_id
    left join int_trials
        on attempts.stream_id = int_trials.stream_id
    left join int_tool_times as tools
        on attempts.stream_id = tools.stream_id
),

calls as (
    select
        placed.cell_id,
        coalesce(costs.purpose, 'all') as purpose,
        known_sum(costs.n_calls, placed.is_counted) as n_calls,
        known_sum(costs.input_tokens, placed.is_counted) as input_tokens,
        known_sum(costs.output_tokens, placed.is_counted) as output_tokens,
        known_sum(costs.cost_usd, placed.is_counted) as cost_usd,
        known_sum(costs.input_tokens + costs.output_tokens, placed.is_failed)
            as failed_tokens,
        known_sum(costs.cost_usd, placed.is_failed) as failed_cost_usd,
        known_sum(costs.model_seconds, placed.is_counted) as model_seconds
    from attempts_placed as placed
    inner join costs
        on placed.stream_id = costs.stream_id
    group by
        grouping sets ((placed.cell_id, costs.purpose), (placed.cell_id))
),

times as (
    select
        cell_id,
        known_sum(tool_seconds, is_counted) as tool_seconds,
        known_sum(duration_ms, is_counted) / 1000 as wall_seconds,
        known_sum(duration_ms, is_failed) / 1000 as failed_wall_seconds
    from attempts_placed
    group by cell_id
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
        calls.purpose,
        tasks.cluster_index,
        tasks.cluster_count,
        nullif(cells.n_trials, 0) as n_valid,
        cells.n_trials,
        cells.n_running,
        cells.n_planned,
        cells.attempts,
        cells.failed_attempts,
        calls.n_calls,
        calls.input_tokens,
        calls.output_tokens,
        calls.cost_usd,
        calls.failed_tokens,
        calls.failed_cost_usd,
        calls.model_seconds,
        times.tool_seconds,
        times.wall_seconds,
        times.failed_wall_seconds
    from cells
    inner join calls on cells.cell_id = calls.cell_id
    inner join times on cells.cell_id = times.cell_id
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
        known_sum(n_calls, true)::bigint as n_calls,
        known_sum(input_tokens, true)::bigint as input_tokens,
        known_sum(output_tokens, true)::bigint as output_tokens,
        round(known_sum(cost_usd, true), 6) as cost_usd,
        count(n_valid) as n_units,
        ratio_estimate(
            case when n_valid is not null then input_tokens + output_tokens end,
            n_valid,
            'no_valid_trials',
            cluster_index,
            cluster_count
        ) as tokens,
        ratio_estimate(
            case when n_valid is not null then cost_usd end,
            n_valid,
            'no_valid_trials',
            cluster_index,
            cluster_count
        ) as cost,
        bool_and(input_tokens + output_tokens is not null) as has_every_token,
        bool_and(cost_usd is not null) as has_every_price,
        sum(attempts)::bigint as attempts,
        sum(failed_attempts)::bigint as failed_attempts,
        known_sum(failed_tokens, true)::bigint as failed_tokens,
        round(known_sum(failed_cost_usd, true), 6) as failed_cost_usd,
        round(known_sum(model_seconds, true), 3) as model_seconds,
        case when purpose = 'all' then round(known_sum(tool_seconds, true), 3) end
            as tool_seconds,
        case when purpose = 'all' then round(known_sum(wall_seconds, true), 3) end
            as wall_seconds,
        case
            when purpose = 'all' then round(known_sum(failed_wall_seconds, true), 3)
        end as failed_wall_seconds
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
    n_units,
    case when has_every_token then tokens.value end as tokens_per_trial,
    case when has_every_token then tokens.low end as tokens_per_trial_low,
    case when has_every_token then tokens.high end as tokens_per_trial_high,
    case when has_every_token then tokens.reason else 'unknown_tokens' end
        as tokens_reason,
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
