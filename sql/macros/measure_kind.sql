-- macro: measure_kind
-- inputs: the name of a measure
-- outputs: varchar: gain, double_gain, free_gain, loss, percent, level, median,
--     recovered, amount, amount_from_1 or ratio; the kind of unit_estimate
-- equation: none
-- source: docs/metrics.md 5: one estimand has one method
-- notes: the numerator of a percentage is 100 times the count.
create or replace macro measure_kind(measure) as case
    when
        measure like '%\_gain' escape '\'
        or measure in ('decay_10_to_90', 'gain_at_90')
        then 'gain'
    when
        measure like '%\_loss' escape '\'
        or measure like '%\_difference' escape '\'
        or measure in ('voi', 'voi_bound')
        then 'loss'
    when
        measure like '%\_recovered\_share' escape '\'
        or measure like '%\_share\_of\_full' escape '\'
        then 'recovered'
    when measure = 'early_minus_late_decay' then 'double_gain'
    when measure like '%\_net_value_pp' escape '\' then 'free_gain'
    when measure like '%\_median\_pct' escape '\' then 'median'
    when measure like '%\_pct' escape '\' then 'percent'
    when
        measure in (
            'pass_at_k',
            'pass_at_1',
            'pass_hat_k',
            'checkpoint_progress',
            'candidate_pass_at_1',
            'candidate_pass_at_k',
            'commitment',
            'window_threshold',
            'precision_micro',
            'precision_macro',
            'recall_micro',
            'recall_macro',
            'recall_of_all',
            'met_of_requested',
            'ask_precision',
            'ask_recall',
            'ask_f1',
            'f1_macro'
        )
        then 'level'
    when measure = 'questions_per_asking_trial' then 'amount_from_1'
    when
        measure in (
            'questions_per_trial',
            'wasted_actions',
            'asked_again_per_trial',
            'guessed_segments_per_trial',
            'actions_until_answer'
        )
        or measure like 'pre\_injection\_%' escape '\'
        then 'amount'
    else 'ratio'
end
