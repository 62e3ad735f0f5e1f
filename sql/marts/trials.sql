-- view: trials
-- grain: trial_id
-- inputs: ambiguity_classes, costs, int_attempts_timed, int_trials, int_variants,
--     stg_trials_finished, stg_trials_started
-- outputs:
--   trial_id, trial_state, stream_id, experiment_id, run_id
--   started_at_us bigint: UTC, microseconds since the epoch; of an import its source's
--       time, null if unknown
--   benchmark, task_id, task_digest
--   domain varchar: domain of the task
--   variant_id, variant_digest
--   ambiguity_class varchar: class that the tables use; null for a task's own trials
--   severity varchar: delete, vaguify, genericize, decoy or environment
--   fault varchar: what is wrong with a request that lacks nothing; null if it lacks
--       something
--   dimensions varchar[]: dimensions of the removed segments, each once, in order
--   agent
--   agent_name varchar: name of the agent as given
--   agent_digest, model, strategy, persona
--   program varchar: name and version of the program that was the agent; null for the
--       native agent
--   instruments varchar: versions of the table of endings, the simulated user and the
--       judge; null if imported
--   condition
--   prompt_state varchar: full, underspecified, control or faulty
--   channel varchar: none, ask_user or inject_p
--   user_simulator, trial_index
--   seed bigint: seed; null if unknown
--   role
--   oracle_scope varchar: task or variant
--   settings_digest varchar: grader, limits, image, scope and prompts as one digest
--   benchmark_version varchar: version of the benchmark
--   grader varchar: who grades
--   limits_json varchar: limits of a trial; null if unknown
--   parameters_json varchar: generation parameters; null if unknown
--   prompts_digest varchar: digest of the prompts of its channel; null if unknown
--   sandbox varchar: kind of sandbox, or leased if the agent worked elsewhere
--   trials_per_cell bigint: planned trials per cell; null if unknown
--   inject_percent, budget_actions
--   inject_after_action bigint: target action as planned
--   ended_by varchar: how the agent's part ended, docs/metrics.md 1; null if unknown
--   is_success
--   terminal_state double[]: checkpoint results in order
--   scores double[]: raw points in order
--   checkpoint_progress double: share of the points reached, 0 to 1
--   action_count bigint: actions of the attempt that counts; null if unknown
--   question_count bigint: questions of the attempt that counts; null if unknown
--   first_ask_action bigint: action of the first question
--   first_ask_pct double: place of this action among the actions, %
--   is_injected boolean: the message was inserted; null unless injected condition
--   injected_after_action bigint: action after which the message was inserted
--   attempts bigint: attempts started, however they ended
--   failed_attempts bigint: attempts that ended and do not count
--   charged_seconds double: time of the agent's own work, which max_seconds limits;
--       null if unknown
--   waited_seconds double: time that the agent waited for infrastructure; null if
--       unknown
--   agent_input_tokens bigint: tokens sent to the agent's models; null if unknown
--   agent_cached_input_tokens bigint: input tokens read from a cache; null if unknown
--   agent_cache_write_tokens bigint: input tokens written to a cache; null if unknown
--   agent_output_tokens bigint: tokens received from the agent's models; null if
--       unknown
--   agent_reasoning_tokens bigint: output tokens of reasoning; null if unknown
--   agent_cost_usd double: USD; null if a price is unknown
--   agent_provider_cost_usd double: USD, as the providers report it; null if one does
--       not
--   user_simulator_tokens bigint: tokens of the simulated user; null if unknown
--   user_simulator_cost_usd double: USD of the simulated user; null if a price is
--       unknown
--   grader_and_judge_tokens bigint: tokens of grader and judge, including later
--       judging; null if unknown
--   grader_and_judge_cost_usd double: their USD; null if a price is unknown
--   cost_usd double: USD of agent, simulated user, grader and judge; null if a price is
--       unknown
--   failed_calls bigint: requests without a usable reply, of all attempts; null if
--       unknown
--   failed_tokens bigint: tokens of the failed attempts; null if unknown
--   failed_cost_usd double: their USD; null if a price is unknown
--   model_seconds double: time of the agent's replies; null if unknown
--   tool_seconds double: time of actions; null if unknown
--   wall_seconds double: wall time of the attempt that counts; null if unknown
-- equation: first_ask_pct = 100 * first_ask_action / action_count; tokens = input +
--     output; cost_usd = agent + user_simulator + grader_and_judge
-- source: docs/metrics.md 1 and 8
-- notes: all trials that were ever started. The outcome is null if a trial is not
--     valid, or if the source of an import lacks the outcome. checkpoint_progress is
--     the benchmark's final score if there is one. The seed is not part of the
--     settings. Tokens, USD and times are those of the attempt that counts; failed_*
--     are those of all attempts. If a part is unknown, the sum is null.
with calls as (
    select
        attempts.trial_id,
        costs.purpose,
        attempts.is_counted,
        attempts.is_failed,
        costs.input_tokens,
        costs.output_tokens,
        costs.cached_input_tokens,
        costs.cache_write_tokens,
        costs.reasoning_tokens,
        costs.cost_usd,
        costs.provider_cost_usd,
        costs.failed_calls,
        costs.model_seconds,
        costs.input_tokens + costs.output_tokens as tokens,
        attempts.is_counted and costs.purpose = 'agent' as is_agent,
        attempts.is_counted and costs.purpose = 'user_simulator' as is_simulator,
        attempts.is_counted and costs.purpose in ('grader_and_judge', 'judging')
            as is_judge
    from int_attempts_timed as attempts
    inner join costs
        on attempts.stream_id = costs.stream_id
),

summed as (
    select
        trial_id,
        any_value(input_tokens) filter (where is_agent) as agent_input_tokens,
        any_value(cached_input_tokens) filter (where is_agent)
            as agent_cached_input_tokens,
        any_value(cache_write_tokens) filter (where is_agent)
            as agent_cache_write_tokens,
        any_value(output_tokens) filter (where is_agent) as agent_output_tokens,
        any_value(reasoning_tokens) filter (where is_agent) as agent_reasoning_tokens,
        any_value(cost_usd) filter (where is_agent) as agent_cost_usd,
        any_value(provider_cost_usd) filter (where is_agent) as agent_provider_cost_usd,
        any_value(tokens) filter (where is_simulator) as user_simulator_tokens,
        any_value(cost_usd) filter (where is_simulator) as user_simulator_cost_usd,
        case when bool_or(is_counted) then known_sum(tokens, is_judge) end::bigint
            as grader_and_judge_tokens,
        case when bool_or(is_counted) then known_sum(cost_usd, is_judge) end
            as grader_and_judge_cost_usd,
        case when bool_or(is_counted) then known_sum(cost_usd, is_counted) end
            as cost_usd,
        known_sum(failed_calls, true)::bigint as failed_calls,
        known_sum(tokens, is_failed)::bigint as failed_tokens,
        known_sum(cost_usd, is_failed) as failed_cost_usd,
        any_value(model_seconds) filter (where is_agent) as model_seconds
    from calls
    group by trial_id
)

select
    measured.trial_id,
    measured.trial_state,
    measured.stream_id,
    measured.experiment_id,
    measured.run_id,
    measured.started_at_us,
    measured.benchmark,
    measured.task_id,
    measured.task_digest,
    measured.domain,
    measured.variant_id,
    measured.variant_digest,
    classes.ambiguity_class,
    variants.severity,
    variants.fault,
    distinct_in_order(
        list_transform(variants.segments, lambda segment: segment.dimension)
    ) as dimensions,
    measured.agent,
    measured.agent_name,
    measured.agent_digest,
    started.model,
    started.strategy,
    started.persona,
    started.program,
    started.instruments,
    measured.condition,
    measured.prompt_state,
    measured.channel,
    measured.user_simulator,
    measured.trial_index,
    started.seed,
    measured.role,
    measured.oracle_scope,
    measured.settings_digest,
    started.benchmark_version,
    started.grader,
    started.limits_json,
    started.parameters_json,
    started.prompts_digest,
    started.sandbox,
    measured.trials_per_cell,
    measured.inject_percent,
    measured.budget_actions,
    started.inject_after_action,
    measured.ended_by,
    measured.is_success,
    measured.terminal_state,
    measured.scores,
    measured.checkpoint_progress,
    coalesce(measured.action_count, finished.stated_actions) as action_count,
    measured.question_count,
    measured.first_ask_action,
    measured.first_ask_pct,
    measured.is_injected,
    measured.injected_after_action,
    measured.attempts,
    measured.failed_attempts,
    finished.charged_ms / 1000 as charged_seconds,
    finished.waited_ms / 1000 as waited_seconds,
    trial_costs.agent_input_tokens,
    trial_costs.agent_cached_input_tokens,
    trial_costs.agent_cache_write_tokens,
    trial_costs.agent_output_tokens,
    trial_costs.agent_reasoning_tokens,
    trial_costs.agent_cost_usd,
    trial_costs.agent_provider_cost_usd,
    trial_costs.user_simulator_tokens,
    trial_costs.user_simulator_cost_usd,
    trial_costs.grader_and_judge_tokens,
    trial_costs.grader_and_judge_cost_usd,
    trial_costs.cost_usd,
    trial_costs.failed_calls,
    trial_costs.failed_tokens,
    trial_costs.failed_cost_usd,
    trial_costs.model_seconds,
    timed.tool_seconds,
    timed.wall_seconds
from int_trials as measured
inner join stg_trials_started as started
    on measured.keys_stream_id = started.stream_id
left join int_variants as variants
    on measured.variant_digest = variants.variant_digest
left join ambiguity_classes as classes
    on measured.variant_digest = classes.variant_digest
left join summed as trial_costs
    on measured.trial_id = trial_costs.trial_id
left join int_attempts_timed as timed
    on measured.trial_id = timed.trial_id and timed.is_counted
left join stg_trials_finished as finished
    on
        measured.stream_id = finished.stream_id
        and measured.trial_state = 'valid'
