-- view: int_looks
-- grain: experiment, look
-- inputs: stg_looks_taken, stg_runs_started, stg_trials_started
-- outputs:
--   experiment varchar: name of the experiment
--   look bigint: number of the look; 0 before the first look, and without a plan
--   n_looks bigint: planned looks; null without a plan
--   agent varchar: whose gain is tested; null without a plan
--   tested varchar: the gain that is tested; null without a plan
--   n_tasks bigint: tasks in the look; null without a look
--   p_value double: test of a gain of 0, two-sided; null with too few tasks
--   level double: nominal level of the look; 0 before the first look; null without a
--       plan
--   is_shown boolean: p_value is below level; null without a look
--   is_last boolean: no later look was taken
--   n_runs bigint: runs in which the experiment grew
-- equation: none; level by Hwang, Shih and De Cani with gamma = -2
-- source: docs/metrics.md 5, looks
-- notes: a study has a plan if its latest experiment file has stop_when_shown, or if it
--     has looks. The level of claims is the smallest level of the studies' last looks,
--     so nothing is claimed before the first look. Without a plan, p-values are not
--     corrected for looks.
with grown as (
    select
        experiment_id,
        count(distinct run_id) as n_runs
    from stg_trials_started
    where
        getvariable('experiment') is null
        or experiment_id = getvariable('experiment')
    group by experiment_id
),

planned as (
    select
        experiment_id,
        arg_max(
            json_extract(config_json, '$.stop_when_shown'), (recorded_at_us, run_id)
        ) as stop
    from stg_runs_started
    where kind = 'experiment'
    group by experiment_id
),

taken as (
    select *
    from stg_looks_taken
    qualify
        row_number() over (
            partition by experiment_id, look order by recorded_at_us, stream_id
        ) = 1
)

select
    grown.experiment_id as experiment,
    coalesce(taken.look, 0) as look,
    coalesce(taken.looks, try_cast(planned.stop ->> '$.looks' as bigint)) as n_looks,
    coalesce(taken.agent, planned.stop ->> '$.agent') as agent,
    coalesce(taken.measure, planned.stop ->> '$.measure') || '_gain' as tested,
    taken.tasks as n_tasks,
    significant(taken.p_value) as p_value,
    coalesce(
        significant(taken.level),
        case when planned.stop ->> '$.looks' is not null then 0 end
    ) as level,
    taken.is_shown,
    coalesce(taken.look, 0)
    = max(coalesce(taken.look, 0)) over (partition by grown.experiment_id) as is_last,
    grown.n_runs
from grown
left join planned on grown.experiment_id = planned.experiment_id
left join taken on grown.experiment_id = taken.experiment_id
