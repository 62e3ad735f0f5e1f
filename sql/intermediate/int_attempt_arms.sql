-- view: int_attempt_arms
-- grain: stream_id, agent
-- inputs: stg_runs_started, stg_trials_discarded, stg_trials_started
-- outputs:
--   stream_id
--   agent varchar: name of the agent, with digests where agents or settings differ
--   trial_agent varchar: the only agent of its trial, or the name that several share
--   core_settings varchar: grader, limits, sandbox image and scope as one digest
--   settings_digest varchar: grader, limits, image, scope and prompts as one digest
--   is_chosen boolean: the parameters `settings` and `user_simulator` select the arm
--   trials_per_cell bigint: planned trials per cell of the arm; null if unknown
-- equation: agent = name [#agent] [#settings] [#channel], each part is six digits of a
--     digest, and is present only if the store has several
-- source: docs/metrics.md 5: trials under other settings are other arms; parameters
--     `settings`, `user_simulator`
-- notes: prompts and simulator depend on the channel. A trial belongs to the system
--     prompt of its own run. A run without trials of channel none has the system prompt
--     of the nearest run. If an arm has several simulators, injection templates, or
--     responses of the same ask_user_NAME, it is split into one arm for each, and the
--     trials without that channel belong to all of these arms. An arm's plan is that of
--     the latest run that started trials of the arm, because a run under other settings
--     does not show how many trials are missing.
with started as (
    select
        trials.stream_id,
        trials.benchmark,
        trials.agent as agent_name,
        trials.agent_digest,
        trials.experiment_id,
        trials.run_id,
        trials.recorded_at_us,
        (runs.recorded_at_us, trials.run_id) as run_place,
        runs.trials_per_cell,
        md5(
            concat_ws(
                '|',
                trials.benchmark_version,
                trials.grader,
                coalesce(trials.limits_json, 'unknown'),
                coalesce(runs.sandbox_image, ''),
                trials.oracle_scope
            )
        ) as core_settings,
        trials.channel,
        trials.user_simulator,
        coalesce(trials.prompts_digest, 'unknown') as prompts_digest,
        case
            when trials.channel = 'none' then 'none'
            when trials.channel = 'ask_user' then 'ask'
            else 'inject'
        end as channel_kind,
        case
            when trials.channel = 'ask_user'
                then concat_ws(
                    '|',
                    coalesce(trials.user_simulator, 'unknown'),
                    trials.user_simulator_digest
                )
        end as answering,
        trials.condition,
        trials.response_json as response
    from stg_trials_started as trials
    left join stg_runs_started as runs on trials.run_id = runs.run_id
    where
        trials.stream_id not in (
            select decisions.discarded_stream_id
            from stg_trials_discarded as decisions
            where decisions.is_last and not decisions.is_undone
        )
),

prompted_runs as (
    select
        benchmark,
        agent_name,
        agent_digest,
        core_settings,
        experiment_id,
        run_id,
        min(recorded_at_us) as begun_at_us,
        min(prompts_digest) filter (where channel = 'none') as base_prompt
    from started
    group by all
),

run_prompts as (
    select
        runs.benchmark,
        runs.agent_name,
        runs.agent_digest,
        runs.core_settings,
        runs.experiment_id,
        runs.run_id,
        arg_min(
            others.base_prompt,
            (
                others.run_id <> runs.run_id,
                others.experiment_id <> runs.experiment_id,
                others.begun_at_us > runs.begun_at_us,
                abs(others.begun_at_us - runs.begun_at_us),
                others.base_prompt
            )
        ) as base_prompt
    from prompted_runs as runs
    inner join prompted_runs as others
        on
            runs.benchmark = others.benchmark
            and runs.agent_name = others.agent_name
            and runs.agent_digest = others.agent_digest
            and runs.core_settings = others.core_settings
    where others.base_prompt is not null
    group by all
),

placed as (
    select
        started.stream_id,
        started.benchmark,
        started.agent_name,
        started.agent_digest,
        started.experiment_id,
        started.run_place,
        started.trials_per_cell,
        started.user_simulator,
        started.channel_kind,
        started.response,
        started.condition,
        started.core_settings,
        md5(
            concat_ws(
                '|',
                started.core_settings,
                case started.channel_kind
                    when 'none' then started.prompts_digest
                    else run_prompts.base_prompt
                end
            )
        ) as settings_digest,
        concat_ws('|', started.prompts_digest, started.answering) as channel_settings
    from started
    left join run_prompts
        on
            started.benchmark = run_prompts.benchmark
            and started.agent_name = run_prompts.agent_name
            and started.agent_digest = run_prompts.agent_digest
            and started.core_settings = run_prompts.core_settings
            and started.experiment_id = run_prompts.experiment_id
            and started.run_id = run_prompts.run_id
),

counted as (
    select
        *,
        min(agent_digest) over by_name <> max(agent_digest) over by_name
            as has_other_agents,
        min(settings_digest) over by_agent <> max(settings_digest) over by_agent
            as has_other_settings,
        channel_kind <> 'none'
        and min(channel_settings) over by_channel
        <> max(channel_settings) over by_channel as has_other_channel_settings,
        response is not null
        and min(response) over by_response <> max(response) over by_response
            as has_other_responses
    from placed
    window
        by_name as (partition by agent_name),
        by_agent as (partition by benchmark, agent_name, agent_digest),
        by_channel as (
            partition by
                benchmark, agent_name, agent_digest, settings_digest, channel_kind
        ),
        by_response as (
            partition by
                benchmark, agent_name, agent_digest, settings_digest, condition
        )
),

named as (
    select
        stream_id,
        benchmark,
        experiment_id,
        run_place,
        trials_per_cell,
        user_simulator,
        core_settings,
        settings_digest,
        channel_kind,
        concat_ws(
            '#', agent_name, case when has_other_agents then left(agent_digest, 6) end
        ) as plain_agent,
        case when has_other_settings then left(settings_digest, 6) end
            as settings_suffix,
        case
            when channel_kind = 'none' then null
            else concat(
                if(has_other_channel_settings, left(md5(channel_settings), 6), null),
                if(has_other_responses, left(md5(response), 6), null)
            )
        end as channel_suffix
    from counted
),

channel_arms as (
    select
        benchmark,
        plain_agent,
        settings_digest,
        channel_suffix,
        bool_or(
            channel_kind <> 'ask'
            or getvariable('user_simulator') is null
            or coalesce(user_simulator = getvariable('user_simulator'), false)
        ) as is_asked
    from named
    where channel_suffix is not null
    group by benchmark, plain_agent, settings_digest, channel_suffix
),

shared as (
    select
        named.stream_id,
        named.plain_agent,
        named.core_settings,
        named.settings_digest,
        named.settings_suffix,
        nullif(coalesce(named.channel_suffix, arms.channel_suffix), '')
            as channel_suffix,
        coalesce(arms.is_asked, true) as is_asked,
        arg_max(named.trials_per_cell, named.run_place) over own_arm as trials_per_cell
    from named
    left join channel_arms as arms
        on
            named.benchmark = arms.benchmark
            and named.plain_agent = arms.plain_agent
            and named.settings_digest = arms.settings_digest
            and (
                named.channel_suffix = arms.channel_suffix
                or named.channel_suffix is null
            )
    window
        own_arm as (
            partition by
                named.experiment_id,
                named.benchmark,
                named.plain_agent,
                named.settings_digest,
                nullif(named.channel_suffix, '')
        )
)

select
    stream_id,
    concat_ws('#', plain_agent, settings_suffix, channel_suffix) as agent,
    concat_ws(
        '#',
        plain_agent,
        settings_suffix,
        case when count(*) over (partition by stream_id) = 1 then channel_suffix end
    ) as trial_agent,
    core_settings,
    settings_digest,
    is_asked
    and (
        getvariable('settings') is null
        or coalesce(settings_suffix, channel_suffix) is null
        or list_has_any(
            [settings_suffix, channel_suffix],
            string_split(getvariable('settings'), ',')
        )
    ) as is_chosen,
    trials_per_cell
from shared
