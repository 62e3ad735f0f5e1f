-- view: int_unit_values
-- grain: cell_id, measure
-- inputs: pass_at_k
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
--   cell_id varchar: names the cell of trials behind a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   n_not_injected bigint: valid trials left out: ended before the injection
--   n_questions bigint: questions
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
--   measure varchar: what is measured
--   unit_value double: value of the unit
--   reason varchar: why something is null
--   is_binary boolean: n = k, so pass@k is 0 or 1
-- equation: none; the measures of pass_at_k, one per row
-- source: docs/metrics.md 2 and 3
-- notes: measures are pass_at_k, pass_hat_k and checkpoint_progress (mean per trial,
--     then per unit). A value that is null has a reason.
with listed as (
    select
        benchmark,
        agent,
        unit_kind,
        unit_id,
        condition,
        task_id,
        variant_id,
        variant_digest,
        ambiguity_class,
        concat_ws('|', benchmark, agent, unit_kind, unit_id, condition) as cell_id,
        n_trials,
        n_missing,
        n_not_injected,
        n_questions,
        cluster_index,
        cluster_count,
        unnest(
            [
                {
                    'measure': 'pass_at_k',
                    'unit_value': pass_at_k,
                    'reason': reason,
                    'is_binary': is_binary
                },
                {
                    'measure': 'pass_hat_k',
                    'unit_value': pass_hat_k,
                    'reason': reason,
                    'is_binary': is_binary
                },
                {
                    'measure': 'checkpoint_progress',
                    'unit_value': checkpoint_progress,
                    'reason': case
                        when n_trials = 0 then 'no_valid_trials'
                        when checkpoint_progress is null then 'no_points'
                    end,
                    'is_binary': false
                }
            ]
        ) as listed_measure
    from pass_at_k
)

select
    benchmark,
    agent,
    unit_kind,
    unit_id,
    condition,
    task_id,
    variant_id,
    variant_digest,
    ambiguity_class,
    cell_id,
    n_trials,
    n_missing,
    n_not_injected,
    n_questions,
    cluster_index,
    cluster_count,
    listed_measure.measure,
    listed_measure.unit_value,
    listed_measure.reason,
    listed_measure.is_binary
from listed
