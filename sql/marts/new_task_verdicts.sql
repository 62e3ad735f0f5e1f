-- view: new_task_verdicts
-- grain: variant_digest, agent, role
-- inputs: int_new_task_verdicts, int_variants_classified
-- outputs:
--   variant_digest varchar: digest of the variant
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   role varchar: evaluated or classifier
--   benchmark varchar: name of the benchmark
--   variant_id varchar: id of the variant; null for a task's own trials
--   new_task_verdict varchar: confirmed, rejected, unjudged or not_applicable
--   judge varchar: who judged; null where nobody did
--   reason varchar: what the judge saw
-- equation: none
-- source: docs/metrics.md 2, ambiguity class, rule 1
-- notes: the candidates, c = 0 and |S| = 1, apart from the tables: confirmed ones stand
--     in none, rejected and unjudged ones are outcome-critical.
select
    classified.variant_digest,
    classified.agent,
    classified.role,
    classified.benchmark,
    classified.variant_id,
    classified.new_task_verdict,
    verdicts.judge,
    verdicts.reason
from int_variants_classified as classified
left join int_new_task_verdicts as verdicts
    on
        classified.variant_digest = verdicts.variant_digest
        and classified.agent = verdicts.agent
        and classified.role = verdicts.role
where classified.new_task_verdict <> 'not_applicable'
