-- view: budgets
-- grain: stream_id, sequence
-- inputs: stg_oracle_budgets_set
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   sequence bigint: number of the event in its stream, from 0
--   experiment_id varchar: name of the experiment
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   agent_digest varchar: digest of the agent
--   scope varchar: task or variant
--   unit_id varchar: task id or variant id, by scope
--   budget_actions bigint: oracle budget B, actions
--   computed_budget_actions bigint: B recomputed, actions
--   trial_ids varchar[]: trials used
--   action_counts bigint[]: action counts of the trials used
-- equation: B = (2 * sum + n) div (2 * n), the mean rounded half up
-- source: docs/metrics.md 4, budget
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
