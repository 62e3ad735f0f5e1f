-- view: discarded_attempts
-- grain: stream_id
-- inputs: int_calls_summed, stg_trials_discarded, stg_trials_started
-- outputs:
--   stream_id, trial_id, attempt, experiment_id, run_id, benchmark, task_id, variant_id
--   agent_name varchar: name of the agent as given
--   agent_digest, condition, trial_index
--   discard_reason varchar: reason that the person gave
--   is_owed boolean: the next run attempts the trial again
--   discarded_at_us bigint: UTC, microseconds since the epoch
--   cost_usd double: USD of all its calls; null if a price is unknown
-- equation: none
-- source: docs/metrics.md 1, set aside
-- notes: the attempts that a person set aside with the command discard, and did not
--     take back. The other views of attempts and trials leave them out. Views of single
--     actions, questions and model calls keep them, with is_counted = false. The cost
--     of an imported attempt is unknown.
with spent as (
    select
        stream_id,
        known_sum(cost_usd, true) as cost_usd
    from int_calls_summed
    group by stream_id
)

select
    started.stream_id,
    started.trial_id,
    started.attempt,
    started.experiment_id,
    started.run_id,
    started.benchmark,
    started.task_id,
    started.variant_id,
    started.agent as agent_name,
    started.agent_digest,
    started.condition,
    started.trial_index,
    decisions.discard_reason,
    decisions.is_owed,
    decisions.recorded_at_us as discarded_at_us,
    case
        when coalesce(started.origin, 'recorded') <> 'recorded' then null
        when spent.stream_id is null then 0
        else spent.cost_usd
    end as cost_usd
from stg_trials_discarded as decisions
inner join stg_trials_started as started
    on decisions.discarded_stream_id = started.stream_id
left join spent on started.stream_id = spent.stream_id
where decisions.is_last and not decisions.is_undone
