-- view: budgets
-- grain: stream_id, sequence
-- inputs:
-- outputs:
-- equation: B = (2 * sum + n) div (2 * n), the mean rounded half up
-- source: METRICS 4, budget; FACTS B3.9
-- notes: as recorded, beside the same from the recorded counts; no counts give null.
select
    stream_id,
    sequence,
    experiment_id,
    benchmark,
    agent,
    agent_digest,
    scope,
    unit_id,
    budget_actions,
    case
        when len(action_counts) > 0
            then
                (2 * list_sum(action_counts)::bigint + len(action_counts))
                // (2 * len(action_counts))
    end as computed_budget_actions,
    trial_ids,
    action_counts
from stg_oracle_budgets_set
