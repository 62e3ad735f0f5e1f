-- macro: table_estimate
-- inputs: one row of unit_values per unit of a cell
-- outputs: struct(value double, low double, high double, n_units bigint,
--     n_dropped bigint, n_clusters bigint, n_trials bigint, n_missing bigint,
--     method varchar, reason varchar), the columns in which every table ends
-- equation: that of unit_estimate, of the kind that measure_kind gives for the measure;
--     ..._per_question = ..._per_question_per_variant / number of variants
-- source: docs/metrics.md 3 and 5
-- notes: n_trials counts the valid trials behind the units with a value, n_missing the
--     missing trials of all units; those that several units share count once. A
--     denominator of 0 means nobody_asked, because only questions can be 0. The
--     interval of ..._per_question treats the number of variants as fixed. The list of
--     one makes sure that an estimate is computed once.
create or replace macro table_estimate(
    measure, numerator, denominator, reason, cluster_id, cell_id, n_trials, n_missing
) as list_transform(
    [
        {
            'estimate': unit_estimate(
                measure_kind(measure),
                numerator,
                denominator,
                case
                    when count(numerator) = 0 then min(reason)
                    when any_value(measure_kind(measure)) = 'recovered'
                        then 'no_oracle_gap'
                    else 'nobody_asked'
                end,
                cluster_id
            ),
            'is_per_question': any_value(measure) like '%\_per\_question' escape '\',
            'n_trials': sum_once(
                cell_id, case when numerator is not null then n_trials end
            ),
            'n_missing': sum_once(cell_id, n_missing)
        }
    ],
    lambda cell: struct_pack(
        value := per_unit(
            cell.estimate.value, cell.is_per_question, cell.estimate.n_units
        ),
        low := per_unit(
            cell.estimate.low, cell.is_per_question, cell.estimate.n_units
        ),
        high := per_unit(
            cell.estimate.high, cell.is_per_question, cell.estimate.n_units
        ),
        n_units := cell.estimate.n_units,
        n_dropped := cell.estimate.n_dropped,
        n_clusters := cell.estimate.n_clusters,
        n_trials := cell.n_trials,
        n_missing := cell.n_missing,
        method := cell.estimate.method,
        reason := cell.estimate.reason
    )
)[1]
