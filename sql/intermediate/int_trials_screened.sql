-- view: int_trials_screened
-- grain: trial_id
-- inputs: int_attempt_arms, int_trials, stg_trials_flagged
-- outputs:
--   trial_id
--   exclusion varchar: why no table uses the trial, independent of its variant
-- equation: none
-- source: docs/metrics.md 1 (flags) and 2 (classifying trials); parameters
--     `experiment`, `settings`, `user_simulator`, `reuse_classifying_trials`,
--     `keep_flagged`, `exclude_endings`
-- notes: `exclusion` is the first reason that applies, or null. The tables use the
--     trials without a reason, except those of new_task variants. If a task or variant
--     has changed, only trials of the version that started last are kept.
with arms as (
    select
        stream_id,
        bool_or(is_chosen) as is_in_chosen_arm
    from int_attempt_arms
    group by stream_id
),

chosen as (
    select
        trial_id,
        stream_id,
        benchmark,
        task_id,
        task_digest,
        variant_id,
        variant_digest,
        role,
        keys_stream_id,
        channel,
        user_simulator,
        recorded_at_us,
        is_ending_excluded,
        getvariable('experiment') is null
        or experiment_id = getvariable('experiment') as is_chosen
    from int_trials
),

latest_tasks as (
    select
        benchmark,
        task_id,
        arg_max(task_digest, (recorded_at_us, trial_id)) as task_digest
    from chosen
    where is_chosen
    group by benchmark, task_id
),

latest_variants as (
    select
        benchmark,
        variant_id,
        arg_max(variant_digest, (recorded_at_us, trial_id)) as variant_digest
    from chosen
    where is_chosen and variant_id is not null
    group by benchmark, variant_id
),

lost as (
    select distinct stream_id
    from stg_trials_flagged
    where flag = 'injection_lost' and not getvariable('keep_flagged')
)

select
    chosen.trial_id,
    case
        when not chosen.is_chosen then 'other_experiment'
        when
            chosen.channel = 'ask_user'
            and coalesce(
                chosen.user_simulator <> getvariable('user_simulator'),
                getvariable('user_simulator') is not null
            )
            then 'other_user_simulator'
        when not arms.is_in_chosen_arm then 'other_settings'
        when
            chosen.role = 'classifier' and not getvariable('reuse_classifying_trials')
            then 'classifying_trial'
        when
            chosen.task_digest <> latest_tasks.task_digest
            or chosen.variant_digest <> latest_variants.variant_digest
            then 'superseded'
        when lost.stream_id is not null then 'injection_lost'
        when chosen.is_ending_excluded then 'excluded_ending'
    end as exclusion
from chosen
inner join arms on chosen.keys_stream_id = arms.stream_id
left join latest_tasks
    on
        chosen.benchmark = latest_tasks.benchmark
        and chosen.task_id = latest_tasks.task_id
left join latest_variants
    on
        chosen.benchmark = latest_variants.benchmark
        and chosen.variant_id = latest_variants.variant_id
left join lost
    on chosen.stream_id = lost.stream_id
