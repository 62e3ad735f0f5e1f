-- view: int_trials_screened
-- grain: trial_id
-- inputs: ambiguity_classes, int_trials_measured
-- outputs:
--   trial_id varchar: the trial
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   exclusion varchar: why no table uses the trial; null if they do
-- equation: none
-- source: docs/metrics.md 2 (classifying trials, new_task); parameters `experiment`,
--     `user_simulator`, `reuse_classifying_trials`
-- notes: `exclusion` is null for the trials that the tables use, else the first reason
--     that applies. A task or variant that changed keeps only its latest version, that
--     of the trial started last. An unlabelled variant is kept.
with chosen as (
    select
        trial_id,
        benchmark,
        task_id,
        task_digest,
        variant_id,
        variant_digest,
        role,
        channel,
        user_simulator,
        started_at_us,
        getvariable('experiment') is null
        or experiment_id = getvariable('experiment') as is_chosen
    from int_trials_measured
),

latest_tasks as (
    select
        benchmark,
        task_id,
        arg_max(task_digest, (started_at_us, trial_id)) as task_digest
    from chosen
    where is_chosen
    group by benchmark, task_id
),

latest_variants as (
    select
        benchmark,
        variant_id,
        arg_max(variant_digest, (started_at_us, trial_id)) as variant_digest
    from chosen
    where is_chosen and variant_id is not null
    group by benchmark, variant_id
)

select
    chosen.trial_id,
    ambiguity_classes.ambiguity_class,
    case
        when not chosen.is_chosen then 'other_experiment'
        when
            chosen.channel = 'ask_user'
            and coalesce(
                chosen.user_simulator <> getvariable('user_simulator'),
                getvariable('user_simulator') is not null
            )
            then 'other_user_simulator'
        when
            chosen.role = 'classifier' and not getvariable('reuse_classifying_trials')
            then 'classifying_trial'
        when
            chosen.task_digest <> latest_tasks.task_digest
            or chosen.variant_digest <> latest_variants.variant_digest
            then 'superseded'
        when ambiguity_classes.ambiguity_class = 'new_task' then 'new_task'
    end as exclusion
from chosen
left join latest_tasks
    on
        chosen.benchmark = latest_tasks.benchmark
        and chosen.task_id = latest_tasks.task_id
left join latest_variants
    on
        chosen.benchmark = latest_variants.benchmark
        and chosen.variant_id = latest_variants.variant_id
left join ambiguity_classes
    on chosen.variant_digest = ambiguity_classes.variant_digest
