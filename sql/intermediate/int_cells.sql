-- view: int_cells
-- grain: benchmark, agent, unit_kind, unit_id, condition
-- inputs: int_trials_evaluated
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   unit_kind varchar: task or variant
--   unit_id varchar: task or variant id
--   condition varchar: condition of the trials
--   task_id varchar: id of the task
--   variant_id varchar: id of the variant; null for a task's own trials
--   variant_digest varchar: digest of the variant
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   is_task_scope boolean: full trials are shared per task
--   is_baseline_reused boolean: holds trials that gave the class
--   n_planned bigint: trials planned, at least those seen
--   n_valid bigint: valid trials
--   n_trials bigint: measured trials, n
--   n_missing bigint: planned trials neither valid nor running
--   n_running bigint: trials running now
--   n_not_injected bigint: valid trials left out: ended before the injection
--   n_success bigint: successes among them, c
--   n_settings bigint: different settings in the cell
--   checkpoint_progress double: share of the points reached, 0 to 1
--   progress_variance double: of the measured trials, population variance
--   n_asking_trials bigint: measured trials with a question; null if unknown
--   n_questions bigint: questions; null if unknown
-- equation: n_missing = planned - valid - running, where planned is the recorded number
--     per cell, at least the trials seen
-- source: docs/metrics.md 1 and 3
-- notes: a trial of a variant is in the unit of its variant; a trial with the full
--     prompt is (also) in the unit of its task. The questions of a cell, and who asked,
--     are unknown where those of one of its measured trials are.
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
        bool_or(trials.oracle_scope = 'task') as is_task_scope,
        bool_or(trials.role = 'classifier') as is_baseline_reused,
        greatest(coalesce(max(trials.trials_per_cell), 0), count(*)) as n_planned,
        count(*) filter (where trials.trial_state = 'valid') as n_valid,
        count(*) filter (where trials.trial_state = 'running') as n_running,
        count(*) filter (where trials.is_measured) as n_trials,
        count(*) filter (where trials.is_measured and trials.is_success)
            as n_success,
        count(distinct trials.settings_digest) as n_settings,
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
        on placed.trial_id = trials.trial_id
    group by
        placed.benchmark,
        placed.agent,
        placed.unit_kind,
        placed.unit_id,
        placed.condition,
        trials.variant_id
)

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
    bool_or(is_task_scope) as is_task_scope,
    bool_or(is_baseline_reused) as is_baseline_reused,
    sum(n_planned)::bigint as n_planned,
    sum(n_valid)::bigint as n_valid,
    sum(n_trials)::bigint as n_trials,
    sum(n_planned - n_valid - n_running)::bigint as n_missing,
    sum(n_running)::bigint as n_running,
    sum(n_valid - n_trials)::bigint as n_not_injected,
    sum(n_success)::bigint as n_success,
    max(n_settings) as n_settings,
    list_avg(flatten(list(progress_values order by subcell_id)))
        as checkpoint_progress,
    list_var_pop(flatten(list(progress_values order by subcell_id)))
        as progress_variance,
    case when not bool_or(has_unknown_questions) then sum(n_asking_trials) end::bigint
        as n_asking_trials,
    case when not bool_or(has_unknown_questions) then sum(n_questions) end::bigint
        as n_questions
from subcells
group by benchmark, agent, unit_kind, unit_id, condition
