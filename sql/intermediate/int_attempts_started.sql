-- view: int_attempts_started
-- grain: stream_id
-- inputs: stg_trials_started
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   trial_id varchar: the trial
--   attempt integer: number of the attempt, from 1
--   experiment_id varchar: name of the experiment
--   started_at_us bigint: UTC, microseconds since the epoch
--   run_id varchar: the run
--   benchmark varchar: name of the benchmark
--   task_id varchar: id of the task
--   task_digest varchar: digest of the task
--   variant_id varchar: id of the variant; null for a task's own trials
--   variant_digest varchar: digest of the variant
--   prompt_state varchar: full, underspecified or control
--   channel varchar: none, ask_user or inject_p
--   condition varchar: condition of the trials
--   agent_name varchar: name of the agent as given
--   agent_digest varchar: digest of the agent
--   trial_index bigint: index of the trial in its cell
--   role varchar: evaluated or classifier
--   oracle_scope varchar: task or variant
--   user_simulator varchar: simulator; null without the channel
--   settings_digest varchar: limits, parameters, prompts, grader, simulator and scope
--       as one digest
--   inject_percent bigint: p of inject_p
--   budget_actions bigint: oracle budget B, actions
--   is_imported boolean: the source may lack any value
--   has_every_key boolean: seed, limits, parameters and prompts are known
-- equation: none
-- source: docs/metrics.md 1
-- notes: every attempt with the keys that tables are made of, read once; the seed is no
--     part of the settings, and unknown settings are equal to each other.
select
    stream_id,
    trial_id,
    attempt,
    experiment_id,
    started_at_us,
    run_id,
    benchmark,
    task_id,
    task_digest,
    variant_id,
    variant_digest,
    prompt_state,
    channel,
    condition,
    agent as agent_name,
    agent_digest,
    trial_index,
    role,
    oracle_scope,
    user_simulator,
    md5(
        concat_ws(
            '|',
            grader,
            coalesce(limits_json, 'unknown'),
            case
                when parameters_json is null then 'unknown'
                else json_merge_patch(parameters_json, '{"seed": null}')::varchar
            end,
            coalesce(prompts_digest, 'unknown'),
            ask_notice,
            user_simulator,
            oracle_scope
        )
    ) as settings_digest,
    inject_percent,
    budget_actions,
    coalesce(origin <> 'recorded', false) as is_imported,
    seed is not null
    and limits_json is not null
    and parameters_json is not null
    and prompts_digest is not null as has_every_key
from stg_trials_started
