-- view: trial_counts_and_cost
-- grain: benchmark, agent, role, condition, purpose
-- inputs: costs, int_attempts_timed, int_task_clusters, int_trials,
--     int_trials_screened
-- outputs:
--   benchmark, agent
--   role varchar: evaluated, classifier, or all
--   condition varchar: condition of the trials, or all
--   purpose varchar: who used the model: agent, user_simulator, grader_and_judge, or
--       judging afterwards; all is the sum
--   n_cells bigint: cells of trials
--   n_planned
--   n_trials bigint: valid trials
--   n_missing
--   n_running bigint: trials running now
--   n_calls bigint: replies; null if unknown
--   input_tokens bigint: tokens sent; null if unknown
--   output_tokens bigint: tokens received; null if unknown
--   cached_input_tokens bigint: sent tokens that were read from a cache; null if
--       unknown
--   cache_write_tokens bigint: sent tokens that were written to a cache; null if
--       unknown
--   reasoning_tokens bigint: received tokens of reasoning; null if unknown
--   cost_usd double: USD; null if a price is unknown
--   provider_cost_usd double: USD, as the providers report it; null if one does not
--   n_units bigint: cells with a valid trial
--   n_clusters bigint: clusters (tasks) of these cells
--   tokens_per_trial double: mean per valid trial
--   tokens_per_trial_low double: lower bound
--   tokens_per_trial_high double: upper bound
--   tokens_reason varchar: why tokens per trial or their interval are null
--   cost_usd_per_trial double: mean per valid trial, USD
--   cost_usd_per_trial_low double: lower bound, USD
--   cost_usd_per_trial_high double: upper bound, USD
--   cost_reason varchar: why the cost per trial or its interval is null
--   attempts bigint: attempts started, however they ended
--   failed_attempts bigint: attempts that ended and do not count
--   failed_calls bigint: requests without a usable reply, of all attempts; null if
--       unknown
--   failed_tokens bigint: tokens of failed attempts; null if unknown
--   failed_cost_usd double: USD of failed attempts; null if a price is unknown
--   model_seconds double: time of replies; null if unknown
--   tool_seconds double: time of actions; null if unknown
--   wall_seconds double: wall time of the attempts that count; null if unknown
--   failed_wall_seconds double: wall time of failed attempts; null if unknown
-- equation: sums and means over valid trials; n_missing = planned - valid - running
-- source: docs/metrics.md 6 and 8 [Ask Early table 9]; parameter `experiment`
-- notes: every trial that was paid for is counted, even classifying trials, superseded
--     trials (which are never missing) and trials of new_task variants. Attempts that
--     were set aside are left out. Their cost is in a note and in discarded_attempts.
--     In a key column, all marks the sum. If a price is unknown, the cost is null
--     (reason unknown_price). If tokens (even those of a failed call), calls or times
--     are unknown, their sums are null (unknown_tokens). The time of an interrupted
--     attempt is unknown. attempts, failed_* and *_seconds depend on the machine and on
--     interruptions, but the other columns do not. Tool and wall time are in the rows
--     of purpose all.
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
    from int_trials as trials
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
        attempts.is_counted,
        attempts.is_failed,
        attempts.tool_seconds,
        attempts.wall_seconds
    from trials_counted as counted
    inner join int_attempts_timed as attempts
        on counted.trial_id = attempts.trial_id
),

calls as (
    select
        placed.cell_id,
        coalesce(costs.purpose, 'all') as purpose,
        known_sum(costs.n_calls, placed.is_counted) as n_calls,
        known_sum(costs.input_tokens, placed.is_counted) as input_tokens,
        known_sum(costs.output_tokens, placed.is_counted) as output_tokens,
        known_sum(costs.cached_input_tokens, placed.is_counted)
            as cached_input_tokens,
        known_sum(costs.cache_write_tokens, placed.is_counted) as cache_write_tokens,
        known_sum(costs.reasoning_tokens, placed.is_counted) as reasoning_tokens,
        known_sum(costs.cost_usd, placed.is_counted) as cost_usd,
        known_sum(costs.provider_cost_usd, placed.is_counted) as provider_cost_usd,
        known_sum(costs.failed_calls, true) as failed_calls,
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
        known_sum(wall_seconds, is_counted) as wall_seconds,
        known_sum(wall_seconds, is_failed) as failed_wall_seconds
    from attempts_placed
    group by cell_id
),

joined as (
    select
        cells.cell_id,
        cells.benchmark,
        cells.agent,
        cells.role,
        cells.condition,
        calls.purpose,
        clusters.cluster_id,
        nullif(cells.n_trials, 0) as n_valid,
        cells.n_trials,
        cells.n_running,
        cells.n_planned,
        cells.attempts,
        cells.failed_attempts,
        calls.n_calls,
        calls.input_tokens,
        calls.output_tokens,
        calls.cached_input_tokens,
        calls.cache_write_tokens,
        calls.reasoning_tokens,
        calls.cost_usd,
        calls.provider_cost_usd,
        calls.failed_calls,
        calls.failed_tokens,
        calls.failed_cost_usd,
        calls.model_seconds,
        times.tool_seconds,
        times.wall_seconds,
        times.failed_wall_seconds
    from cells
    inner join calls on cells.cell_id = calls.cell_id
    inner join times on cells.cell_id = times.cell_id
    inner join int_task_clusters as clusters
        on
            cells.benchmark = clusters.benchmark
            and cells.task_id = clusters.task_id
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
        known_sum(cached_input_tokens, true)::bigint as cached_input_tokens,
        known_sum(cache_write_tokens, true)::bigint as cache_write_tokens,
        known_sum(reasoning_tokens, true)::bigint as reasoning_tokens,
        round(known_sum(cost_usd, true), 6) as cost_usd,
        round(known_sum(provider_cost_usd, true), 6) as provider_cost_usd,
        count(n_valid) as n_units,
        coalesce(
            list_unique(list(cluster_id) filter (where n_valid is not null)), 0
        )::bigint as n_clusters,
        ratio_estimate(
            case when n_valid is not null then input_tokens + output_tokens end,
            n_valid,
            'no_valid_trials',
            cluster_id
        ) as tokens,
        ratio_estimate(
            case when n_valid is not null then cost_usd end,
            n_valid,
            'no_valid_trials',
            cluster_id
        ) as cost,
        bool_and(input_tokens + output_tokens is not null) as has_every_token,
        bool_and(cost_usd is not null) as has_every_price,
        sum(attempts)::bigint as attempts,
        sum(failed_attempts)::bigint as failed_attempts,
        known_sum(failed_calls, true)::bigint as failed_calls,
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
    cached_input_tokens,
    cache_write_tokens,
    reasoning_tokens,
    cost_usd,
    provider_cost_usd,
    n_units,
    n_clusters,
    case when has_every_token then tokens.value end as tokens_per_trial,
    case when has_every_token then tokens.low end as tokens_per_trial_low,
    case when has_every_token then tokens.high end as tokens_per_trial_high,
    case when has_every_token then tokens.reason else 'unknown_tokens' end
        as tokens_reason,
    case when has_every_price then cost.value end as cost_usd_per_trial,
    case when has_every_price then cost.low end as cost_usd_per_trial_low,
    case when has_every_price then cost.high end as cost_usd_per_trial_high,
    case
        when has_every_price then cost.reason
        when has_every_token then 'unknown_price'
        else 'unknown_tokens'
    end as cost_reason,
    attempts,
    failed_attempts,
    failed_calls,
    failed_tokens,
    failed_cost_usd,
    model_seconds,
    tool_seconds,
    wall_seconds,
    failed_wall_seconds
from grouped
