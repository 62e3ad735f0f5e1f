-- view: exclusions
-- grain: benchmark, kind
-- inputs: ambiguity_classes, discarded_attempts, int_attempts, int_cells,
--     int_experiments, int_injections, int_trials_evaluated, int_trials,
--     int_trials_screened, int_variants, stg_runs_started, stg_trials_finished,
--     stg_trials_flagged, stg_trials_started
-- outputs:
--   benchmark varchar: name of the benchmark, or all
--   kind varchar: kind of exclusion or caution
--   n bigint: number of cases
--   cost_usd double: USD of the attempts set aside; null for other kinds, and if a
--       price is unknown
-- equation: none; counts of data that the tables leave out, or that need caution
-- source: docs/metrics.md 1 to 4; docs/metrics.md 6: every table says which trials it
--     excludes and why
-- notes: only kinds that occur have rows. A trial is late_recorder if its recorder was
--     late for over 1 s and over 5 % of the agent's part. These two limits are our
--     choice. For kinds without a benchmark, benchmark is all. A trial that was set
--     aside is discarded_replaced if another attempt of it is valid or running.
with screened as (
    select
        trials.benchmark,
        coalesce(screened.exclusion, 'new_task') as kind,
        count(*) as n
    from int_trials_screened as screened
    inner join int_trials as trials on screened.trial_id = trials.trial_id
    left join ambiguity_classes
        on trials.variant_digest = ambiguity_classes.variant_digest
    where
        screened.exclusion is not null
        or ambiguity_classes.ambiguity_class = 'new_task'
    group by trials.benchmark, kind
),

cells as (
    select
        benchmark,
        unnest(
            [
                { 'kind': 'missing_trials', 'n': sum(n_missing) },
                { 'kind': 'failed_trials', 'n': sum(n_failed) },
                { 'kind': 'running_trials', 'n': sum(n_running) },
                { 'kind': 'not_injected_trials', 'n': sum(n_not_injected) },
                {
                    'kind': 'cells_with_too_few_trials',
                    'n': count(*) filter (where reason = 'too_few_trials')
                },
                {
                    'kind': 'baseline_reused_cells',
                    'n': count(*) filter (where is_baseline_reused)
                }
            ]
        ) as counted
    from int_cells
    where
        not is_of_task
        and (unit_kind = 'variant' or condition in ('full', 'full_ask_user'))
    group by benchmark
),

variants_met as (
    select distinct
        trials.benchmark,
        trials.variant_digest
    from int_trials as trials
    inner join int_trials_screened as screened
        on trials.trial_id = screened.trial_id
    where
        trials.variant_digest is not null
        and (
            screened.exclusion is null or screened.exclusion = 'classifying_trial'
        )
),

classes as (
    select
        variants_met.benchmark,
        unnest(
            [
                {
                    'kind': 'new_task_variants',
                    'n': count(*) filter (where classes.ambiguity_class = 'new_task')
                },
                {
                    'kind': 'unjudged_variants',
                    'n': count(*) filter (
                        where classes.new_task_verdict = 'unjudged'
                    )
                },
                {
                    'kind': 'unclassified_variants',
                    'n': count(*) filter (where classes.ambiguity_class is null)
                },
                {
                    'kind': 'several_classifiers',
                    'n': count(*) filter (where classes.reason = 'several_classifiers')
                },
                {
                    'kind': 'variants_without_segments',
                    'n': count(*) filter (where len(variants.segments) = 0)
                },
                {
                    'kind': 'classifiers',
                    'n': count(distinct classes.classified_by)
                }
            ]
        ) as counted
    from variants_met
    left join ambiguity_classes as classes
        on variants_met.variant_digest = classes.variant_digest
    left join int_variants as variants
        on variants_met.variant_digest = variants.variant_digest
    where classes.origin is distinct from 'control' and variants.fault is null
    group by variants_met.benchmark
),

met as (
    select
        benchmark,
        condition,
        unit_id,
        count(*) as n_agents
    from int_cells
    where
        not is_of_task
        and n_trials > 0
        and (
            (unit_kind = 'task' and condition in ('full', 'full_ask_user'))
            or (
                unit_kind = 'variant'
                and (
                    condition in ('underspecified', 'ask_user')
                    or condition like 'inject%'
                )
            )
        )
    group by benchmark, condition, unit_id
),

agents_met as (
    select
        benchmark,
        condition,
        count(distinct agent) as n_agents
    from int_cells
    where not is_of_task and n_trials > 0
    group by benchmark, condition
),

met_by_all as (
    select
        met.benchmark,
        case
            when met.condition like 'full%' then 'tasks'
            when met.condition like 'inject%' then 'injected'
            else 'variants'
        end as met_how,
        met.unit_id,
        bool_and(met.n_agents = agents.n_agents) as is_common
    from met
    inner join agents_met as agents
        on met.benchmark = agents.benchmark and met.condition = agents.condition
    group by met.benchmark, met_how, met.unit_id
),

common as (
    select
        benchmark,
        met_how || if(is_common, '_common', '_not_common') as kind,
        count(*) as n
    from met_by_all
    group by benchmark, met_how, is_common
    qualify
        bool_or(not is_common) over (partition by benchmark, met_how)
),

arm_names as (
    select distinct
        trials.benchmark,
        trials.agent,
        measured.agent_name,
        measured.agent_name || measured.agent_digest as plain_agent
    from int_trials_evaluated as trials
    inner join int_trials as measured
        on trials.trial_id = measured.trial_id
),

arms as (
    select
        benchmark,
        'arms_by_settings' as kind,
        count(distinct agent) - count(distinct plain_agent) as n
    from arm_names
    group by benchmark
    union all
    select
        'all' as benchmark,
        'arms_by_version' as kind,
        count(distinct plain_agent) - count(distinct agent_name) as n
    from arm_names
),

collapsed as (
    select
        benchmark,
        'collapsed_units' as kind,
        count(*) as n
    from (
        select
            injections.benchmark,
            injections.agent,
            injections.variant_id
        from int_injections as injections
        inner join int_trials_evaluated
            on injections.trial_id = int_trials_evaluated.trial_id
        group by injections.benchmark, injections.agent, injections.variant_id
        having
            count(distinct injections.computed_target_action)
            < count(
                distinct if(
                    injections.computed_target_action is null,
                    null,
                    injections.inject_percent
                )
            )
    ) as units
    group by benchmark
),

flagged as (
    select
        trials.benchmark,
        'flagged_' || flags.flag as kind,
        count(distinct trials.trial_id) as n
    from int_trials_evaluated as trials
    inner join stg_trials_flagged as flags
        on trials.stream_id = flags.stream_id
    group by trials.benchmark, flags.flag
),

late as (
    select
        trials.benchmark,
        'late_recorder' as kind,
        count(*) as n
    from int_trials_evaluated as trials
    inner join stg_trials_finished as finished
        on trials.stream_id = finished.stream_id
    where
        finished.late_ms > 1000
        and finished.late_ms > 0.05 * (finished.charged_ms + finished.waited_ms)
    group by trials.benchmark
),

discarded as (
    select
        benchmark,
        case
            when
                trial_id in (
                    select attempts.trial_id
                    from int_attempts as attempts
                    where attempts.attempt_state in ('valid', 'running')
                )
                then 'discarded_replaced'
            else 'discarded'
        end as kind,
        count(distinct trial_id) as n,
        known_sum(cost_usd, true) as cost_usd
    from discarded_attempts
    where
        getvariable('experiment') is null
        or experiment_id = getvariable('experiment')
    group by all
),

started as (
    select
        run_id,
        count(distinct trial_id) as n_started
    from stg_trials_started
    group by run_id
),

unstarted as (
    select
        'all' as benchmark,
        'unstarted_trials' as kind,
        sum(
            greatest(
                runs.planned_trials
                - runs.finished_before
                - coalesce(started.n_started, 0),
                0
            )
        ) as n
    from int_experiments as runs
    left join started on runs.run_id = started.run_id
    where
        getvariable('experiment') is null
        or runs.experiment_id = getvariable('experiment')
),

left_out as (
    select
        json_extract_string(config_json, '$.benchmark.name') as benchmark,
        'tasks_left_out' as kind,
        count(distinct task_id) as n
    from
        (
            select
                runs.config_json,
                unnest(runs.left_out_tasks) as task_id
            from stg_runs_started as runs
            inner join int_experiments as latest on runs.run_id = latest.run_id
            where
                getvariable('experiment') is null
                or runs.experiment_id = getvariable('experiment')
        ) as named
    group by benchmark
),

united as (
    select * from screened
    union all
    select
        benchmark,
        counted.kind,
        counted.n
    from cells
    union all
    select
        benchmark,
        counted.kind,
        counted.n
    from classes
    union all
    select * from common
    union all
    select * from arms
    union all
    select * from collapsed
    union all
    select * from flagged
    union all
    select * from late
    union all
    select * from unstarted
    union all
    select * from left_out
)

select
    benchmark,
    kind,
    n::bigint as n,
    null::double as cost_usd
from united
where n > 0
union all
select
    benchmark,
    kind,
    n,
    round(cost_usd, 6) as cost_usd
from discarded
