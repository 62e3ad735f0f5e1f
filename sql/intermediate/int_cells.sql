-- view: int_cells
-- grain: benchmark, agent, unit_kind, unit_id, condition
-- inputs: int_task_clusters, int_trials_evaluated
-- outputs:
--   benchmark, agent, unit_kind, unit_id, condition, task_id, variant_id,
--   variant_digest, ambiguity_class
--   is_baseline_reused boolean: has trials that gave the class
--   n_planned
--   n_trials bigint: measured trials, n
--   n_missing
--   n_failed bigint: missing trials that began
--   n_running bigint: trials running now
--   n_not_injected
--   n_success bigint: successes among them, c
--   pass_at_k double: 0 to 1
--   pass_hat_k double: 0 to 1
--   reason
--   is_binary boolean: n = k, so pass@k is 0 or 1
--   checkpoint_progress double: share of the points reached, 0 to 1
--   progress_variance double: population variance of the measured trials' progress
--   n_asking_trials bigint: measured trials with a question; null if unknown
--   n_questions bigint: questions; null if unknown
--   trial_reason varchar: why no measure has a value; null if a measure may have one
--   cluster_id, cell_id
--   levels struct[]: name, number and reason of pass_at_1, pass_at_k, pass_hat_k and
--       checkpoint_progress of the cell; least and most if all its missing trials
--       failed or succeeded, null for pass_hat_k
--   is_of_task boolean: the row is that of the task, repeated for the variant
-- equation: pass@k = 1 - C(n-c, k) / C(n, k); pass^k = C(c, k) / C(n, k);
--     n_missing = planned - valid - running, where planned is the recorded number per
--     cell, or the number of trials seen if that is larger
-- source: docs/metrics.md 1 to 3; Chen et al. 2021; parameter `k`
-- notes: a trial of a variant is in the unit of its variant. A trial with the full
--     prompt is (also) in the unit of its task. If the agent ran a variant that has no
--     such trials of its own, the task's row is repeated for the variant, with the same
--     cell_id. With n < k the value is null (reason too_few_trials). A unit's number of
--     questions, and of trials that asked, is unknown if it is unknown for one of the
--     unit's measured trials.
with placed as (
    select
        trial_id,
        benchmark,
        agent,
        condition,
        task_id,
        'variant' as unit_kind,
        variant_id as unit_id,
        variant_id,
        variant_digest
    from int_trials_evaluated
    where variant_id is not null
    union all
    select
        trial_id,
        benchmark,
        agent,
        condition,
        task_id,
        'task' as unit_kind,
        task_id as unit_id,
        null as variant_id,
        null as variant_digest
    from int_trials_evaluated
    where prompt_state = 'full'
),

subcells as (
    select
        placed.benchmark,
        placed.agent,
        placed.unit_kind,
        placed.unit_id,
        placed.condition,
        trials.variant_id as subcell_id,
        any_value(placed.task_id) as task_id,
        any_value(placed.variant_id) as variant_id,
        any_value(placed.variant_digest) as variant_digest,
        any_value(trials.ambiguity_class) as ambiguity_class,
        bool_or(trials.role = 'classifier') as is_baseline_reused,
        greatest(coalesce(max(trials.trials_per_cell), 0), count(*)) as n_planned,
        count(*) filter (where trials.trial_state = 'valid') as n_valid,
        count(*) filter (where trials.trial_state = 'missing') as n_failed,
        count(*) filter (where trials.trial_state = 'running') as n_running,
        count(*) filter (where trials.is_measured) as n_trials,
        count(*) filter (
            where trials.trial_state = 'valid' and not trials.is_injected
        ) as n_not_injected,
        count(*) filter (where trials.is_measured and trials.is_success)
            as n_success,
        list(trials.checkpoint_progress order by trials.trial_id)
        filter (where trials.is_measured) as progress_values,
        bool_or(trials.is_measured and trials.question_count is null)
            as has_unknown_questions,
        count(*) filter (where trials.is_measured and trials.question_count > 0)
            as n_asking_trials,
        coalesce(
            sum(trials.question_count) filter (where trials.is_measured), 0
        )::bigint as n_questions
    from placed
    inner join int_trials_evaluated as trials
        on placed.trial_id = trials.trial_id and placed.agent = trials.agent
    group by
        placed.benchmark,
        placed.agent,
        placed.unit_kind,
        placed.unit_id,
        placed.condition,
        trials.variant_id
),

summed as (
    select
        benchmark,
        agent,
        unit_kind,
        unit_id,
        condition,
        any_value(task_id) as task_id,
        any_value(variant_id) as variant_id,
        any_value(variant_digest) as variant_digest,
        any_value(ambiguity_class) as ambiguity_class,
        bool_or(is_baseline_reused) as is_baseline_reused,
        sum(n_planned)::bigint as n_planned,
        sum(n_trials)::bigint as n_trials,
        sum(n_planned - n_valid - n_running)::bigint as n_missing,
        sum(n_failed)::bigint as n_failed,
        sum(n_running)::bigint as n_running,
        sum(n_not_injected)::bigint as n_not_injected,
        sum(n_success)::bigint as n_success,
        list_avg(flatten(list(progress_values order by subcell_id)))
            as checkpoint_progress,
        list_var_pop(flatten(list(progress_values order by subcell_id)))
            as progress_variance,
        case
            when not bool_or(has_unknown_questions) then sum(n_asking_trials)
        end::bigint as n_asking_trials,
        case when not bool_or(has_unknown_questions) then sum(n_questions) end::bigint
            as n_questions
    from subcells
    group by benchmark, agent, unit_kind, unit_id, condition
),

drawn as (
    select
        *,
        case when n_trials = 0 then 'no_valid_trials' end as trial_reason,
        n_trials < getvariable('k') as has_too_few,
        list_product(
            list_transform(
                range(0, getvariable('k')),
                lambda i: greatest(n_trials - n_success - i, 0) / (n_trials - i)
            )
        ) as share_all_failed,
        list_product(
            list_transform(
                range(0, getvariable('k')),
                lambda i: greatest(n_success - i, 0) / (n_trials - i)
            )
        ) as share_all_passed,
        n_trials + n_missing as n_bound,
        coalesce(
            n_trials * checkpoint_progress, case when n_trials = 0 then 0 end
        ) as progress_sum,
        list_transform(
            [n_bound - n_success, n_trials - n_success],
            lambda n_failed: case
                when n_bound >= getvariable('k')
                    then 1 - list_product(
                        list_transform(
                            range(0, getvariable('k')),
                            lambda i: greatest(n_failed - i, 0) / (n_bound - i)
                        )
                    )
            end
        ) as pass_bounds
    from summed
),

valued as (
    select
        drawn.benchmark,
        drawn.agent,
        drawn.unit_kind,
        drawn.unit_id,
        drawn.condition,
        drawn.task_id,
        drawn.variant_id,
        drawn.variant_digest,
        drawn.ambiguity_class,
        drawn.is_baseline_reused,
        drawn.n_planned,
        drawn.n_trials,
        drawn.n_missing,
        drawn.n_failed,
        drawn.n_running,
        drawn.n_not_injected,
        drawn.n_success,
        case when not drawn.has_too_few then 1 - drawn.share_all_failed end
            as pass_at_k,
        case when not drawn.has_too_few then drawn.share_all_passed end
            as pass_hat_k,
        case when drawn.has_too_few then 'too_few_trials' end as reason,
        drawn.n_trials = getvariable('k') as is_binary,
        drawn.checkpoint_progress,
        drawn.progress_variance,
        drawn.n_bound,
        drawn.progress_sum,
        drawn.pass_bounds,
        drawn.n_asking_trials,
        drawn.n_questions,
        drawn.trial_reason,
        clusters.cluster_id,
        concat_ws(
            '|',
            drawn.benchmark,
            drawn.agent,
            drawn.unit_kind,
            drawn.unit_id,
            drawn.condition
        ) as cell_id
    from drawn
    inner join int_task_clusters as clusters
        on
            drawn.benchmark = clusters.benchmark
            and drawn.task_id = clusters.task_id
),

leveled as (
    select
        * exclude (n_bound, progress_sum, pass_bounds),
        [
            {
                'name': 'pass_at_1',
                'number': n_success / nullif(n_trials, 0),
                'reason': trial_reason,
                'least': n_success / nullif(n_bound, 0),
                'most': (n_success + n_missing) / nullif(n_bound, 0)
            },
            {
                'name': 'pass_at_k',
                'number': pass_at_k,
                'reason': reason,
                'least': pass_bounds[1],
                'most': pass_bounds[2]
            },
            {
                'name': 'pass_hat_k',
                'number': pass_hat_k,
                'reason': reason,
                'least': null,
                'most': null
            },
            {
                'name': 'checkpoint_progress',
                'number': checkpoint_progress,
                'reason': case
                    when checkpoint_progress is null
                        then coalesce(trial_reason, 'no_points')
                end,
                'least': progress_sum / nullif(n_bound, 0),
                'most': (progress_sum + n_missing) / nullif(n_bound, 0)
            }
        ] as levels
    from valued
),

variants as (
    select
        benchmark,
        agent,
        unit_id,
        any_value(task_id) as task_id,
        any_value(variant_digest) as variant_digest,
        any_value(ambiguity_class) as ambiguity_class,
        list(condition) as conditions
    from valued
    where unit_kind = 'variant'
    group by benchmark, agent, unit_id
)

select
    *,
    false as is_of_task
from leveled
union all
select
    shared.* replace (
        'variant' as unit_kind,
        variants.unit_id as unit_id,
        variants.unit_id as variant_id,
        variants.variant_digest as variant_digest,
        variants.ambiguity_class as ambiguity_class
    ),
    true as is_of_task
from variants
inner join leveled as shared
    on
        variants.benchmark = shared.benchmark
        and variants.agent = shared.agent
        and variants.task_id = shared.unit_id
        and shared.unit_kind = 'task'
where not list_contains(variants.conditions, shared.condition)
