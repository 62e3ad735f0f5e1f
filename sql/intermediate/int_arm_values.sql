-- view: int_arm_values
-- grain: benchmark, agent, unit_kind, unit_id, condition, measure
-- inputs: int_cells
-- outputs:
--   benchmark, agent, unit_kind, unit_id, condition, measure, task_id, variant_digest,
--   ambiguity_class, cluster_id, cell_id, unit_value, reason,
--   n_trials, n_missing
-- equation: success_pct = 100 * successes / trials; ask_pct = 100 * trials with a
--     question / trials; questions_per_trial = questions / trials
-- source: docs/metrics.md 2 and 3; what `lhaw-record compare` pairs
-- notes: the trials of a task's full prompt count for the task, and for each of its
--     variants that the agent ran and that has no full trials of its own. Without valid
--     trials the value is null.
with cells as (
    select
        *,
        unnest(
            levels
            || [
                {
                    'name': 'success_pct',
                    'number': 100 * n_success / nullif(n_trials, 0),
                    'reason': trial_reason
                },
                {
                    'name': 'ask_pct',
                    'number': 100 * n_asking_trials / nullif(n_trials, 0),
                    'reason': 'unknown_actions'
                },
                {
                    'name': 'questions_per_trial',
                    'number': n_questions / nullif(n_trials, 0),
                    'reason': 'unknown_actions'
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
    n_trials,
    n_missing
from cells
where level.name <> 'pass_at_1'
