-- view: int_arm_values
-- grain: benchmark, agent, unit_kind, unit_id, condition, measure
-- inputs: int_cells
-- outputs:
--   benchmark, agent, unit_kind, unit_id, condition, measure, task_id, variant_digest,
--   ambiguity_class, cluster_id, cell_id, unit_value, reason
--   least double: the value if all missing trials failed
--   most double: the value if all missing trials succeeded
--   n_trials, n_missing
-- equation: ask_pct = 100 * trials with a question / trials; questions_per_trial =
--     questions / trials; the other measures as in int_cells
-- source: docs/metrics.md 2 and 3; what `lhaw-record compare` pairs
-- notes: trials with a task's full prompt count for the task. They also count for each
--     variant of the task that the agent ran, unless the variant has its own full
--     trials. Without valid trials the value is null.
with cells as (
    select
        *,
        unnest(
            levels
            || [
                {
                    'name': 'ask_pct',
                    'number': 100 * n_asking_trials / nullif(n_trials, 0),
                    'reason': 'unknown_actions',
                    'least': 100 * n_asking_trials / (n_trials + n_missing),
                    'most': 100
                    * (n_asking_trials + n_missing)
                    / (n_trials + n_missing)
                },
                {
                    'name': 'questions_per_trial',
                    'number': n_questions / nullif(n_trials, 0),
                    'reason': 'unknown_actions',
                    'least': null,
                    'most': null
                }
            ]
        ) as level
    from int_cells
)

select
    benchmark,
    agent,
    unit_kind,
    unit_id,
    condition,
    level.name as measure,
    task_id,
    variant_digest,
    ambiguity_class,
    cluster_id,
    cell_id,
    level.number as unit_value,
    case
        when level.number is null
            then coalesce(trial_reason, level.reason)
    end as reason,
    level.least,
    level.most,
    n_trials,
    n_missing
from cells
