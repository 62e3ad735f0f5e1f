-- view: costs_agree
-- grain: stream_id
-- inputs: int_attempts, int_calls_summed
-- outputs:
--   stream_id
--   recorded_cost_usd double: as recorded, USD
--   summed_cost_usd double: sum of the calls, USD
-- equation: trial_finished.cost_usd = sum over the attempt's calls, to 6 places
-- source: docs/metrics.md 8
-- notes: returns the attempts that break the rule. An unknown price makes both costs
--     null. In imports both come from the source, which may state only one of them, and
--     whose total may include calls that it does not show. A failed call of unknown
--     cost makes only the sum null: the runner counts it as 0, because it needs a lower
--     bound.
with summed as (
    select
        attempts.stream_id,
        attempts.recorded_cost_usd,
        any_value(attempts.is_imported) as is_imported,
        coalesce(sum(calls.unreported_calls), 0) > 0 as has_unreported,
        case
            when bool_and(calls.stream_id is null or calls.cost_usd is not null)
                then coalesce(exact_sum(calls.cost_usd), 0)
        end as summed_cost_usd
    from int_attempts as attempts
    left join int_calls_summed as calls
        on attempts.stream_id = calls.stream_id and calls.purpose <> 'judging'
    where attempts.attempt_state in ('valid', 'ungraded')
    group by attempts.stream_id, attempts.recorded_cost_usd
)

select
    stream_id,
    recorded_cost_usd,
    summed_cost_usd
from summed
where
    not is_imported
    and (
        (
            (recorded_cost_usd is null) <> (summed_cost_usd is null)
            and not has_unreported
        )
        or abs(recorded_cost_usd - summed_cost_usd) > 0.000001
    )
