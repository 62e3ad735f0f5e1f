-- view: costs_agree
-- grain: stream_id
-- inputs: costs, stg_trials_finished
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   recorded_cost_usd double: as recorded, USD
--   summed_cost_usd double: sum of the calls, USD
-- equation: trial_finished.cost_usd = sum over the attempt's replies, to 6 places
-- source: docs/metrics.md 8
-- notes: an unknown price makes both null. Returns the attempts that break it.
with summed as (
    select
        stream_id,
        case when count(*) = count(cost_usd) then sum(cost_usd) end as cost_usd
    from costs
    group by stream_id
)

select
    finished.stream_id,
    finished.cost_usd as recorded_cost_usd,
    summed.cost_usd as summed_cost_usd
from stg_trials_finished as finished
inner join summed on finished.stream_id = summed.stream_id
where
    (finished.cost_usd is null) <> (summed.cost_usd is null)
    or abs(finished.cost_usd - summed.cost_usd) > 0.000001
