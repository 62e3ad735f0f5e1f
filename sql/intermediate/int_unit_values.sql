-- view: int_unit_values
-- grain: cell_id, measure
-- inputs:
-- outputs:
-- equation: none; the measures of pass_at_k, one per row
-- source: METRICS 2 and 3
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
