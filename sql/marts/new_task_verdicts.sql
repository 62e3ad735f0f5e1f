-- view: new_task_verdicts
-- grain: variant_digest, agent, role
-- inputs: observed_classes
-- outputs:
--   variant_digest, agent, role, benchmark, variant_id
--   new_task_verdict varchar: confirmed, rejected, unjudged or not_applicable
--   judge varchar: who judged; null if unjudged
--   reason varchar: reason that the judge gave
-- equation: none
-- source: docs/metrics.md 2, ambiguity class, rule 1
-- notes: variants with c = 0 and |S| = 1 are candidates for new_task. Confirmed
--     candidates are in no table. Rejected and unjudged candidates count as
--     outcome-critical.
select
    variant_digest,
    agent,
    role,
    benchmark,
    variant_id,
    new_task_verdict,
    judge,
    judge_reason as reason
from observed_classes
where new_task_verdict <> 'not_applicable' and role <> 'vote'
