-- view: arms
-- grain: benchmark, agent
-- inputs: int_attempt_arms, stg_runs_started, stg_trials_started
-- outputs:
--   benchmark
--   agent varchar: name of the agent, with digests where agents or settings differ
--   agent_name varchar: name of the agent as given
--   agent_digest
--   settings_digest varchar: grader, limits, image, scope and prompts as one digest
--   benchmark_version varchar: version of the benchmark
--   model, strategy, persona
--   parameters_json varchar: generation parameters; null if unknown
--   limits_json varchar: limits of a trial; null if unknown
--   sandbox_image varchar: image of the containers; null if the experiment file names
--       none
--   grader varchar: who grades
--   oracle_scope varchar: task or variant
--   user_simulators varchar[]: simulators that answered
--   prompts_digests varchar[]: digests of its prompts, one or more per channel
--   experiments varchar[]: experiments that it ran in
--   programs varchar[]: names and versions of its programs, as `agents list` has them
--   first_recorded_at_us bigint: when its first trial was recorded, UTC, microseconds
--   n_trials bigint: trials ever started
-- equation: none
-- source: docs/metrics.md 5: trials under other settings are other arms
-- notes: the rows describe the agents of the tables, and how arms of one name differ.
--     All trials of the store are counted, even those that the parameters leave out.
with started as (
    select
        arms.agent,
        trials.agent as agent_name,
        trials.agent_digest,
        arms.settings_digest,
        trials.benchmark,
        trials.benchmark_version,
        trials.model,
        trials.strategy,
        trials.persona,
        trials.parameters_json,
        trials.limits_json,
        runs.sandbox_image,
        trials.grader,
        trials.oracle_scope,
        trials.user_simulator,
        trials.prompts_digest,
        trials.experiment_id,
        trials.program,
        trials.recorded_at_us,
        trials.trial_id
    from int_attempt_arms as arms
    inner join stg_trials_started as trials
        on arms.stream_id = trials.stream_id
    left join stg_runs_started as runs
        on trials.run_id = runs.run_id
)

select
    benchmark,
    agent,
    any_value(agent_name) as agent_name,
    any_value(agent_digest) as agent_digest,
    any_value(settings_digest) as settings_digest,
    max(benchmark_version) as benchmark_version,
    max(model) as model,
    max(strategy) as strategy,
    max(persona) as persona,
    max(parameters_json) as parameters_json,
    max(limits_json) as limits_json,
    max(sandbox_image) as sandbox_image,
    max(grader) as grader,
    max(oracle_scope) as oracle_scope,
    list(distinct user_simulator order by user_simulator)
    filter (where user_simulator is not null) as user_simulators,
    list(distinct prompts_digest order by prompts_digest)
    filter (where prompts_digest is not null) as prompts_digests,
    list(distinct experiment_id order by experiment_id) as experiments,
    list(distinct program order by program)
    filter (where program is not null) as programs,
    min(recorded_at_us) as first_recorded_at_us,
    count(distinct trial_id) as n_trials
from started
group by benchmark, agent
