-- view: stg_variants_rejected
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us, benchmark, task_id, task_digest
--   variant_id varchar: id that the variant would have had
--   severity varchar: delete, vaguify, genericize, decoy or environment
--   segments struct[]: the segments to remove, in order
--   rewriter varchar: rules/N, or the model's name
--   rewriter_digest varchar: digest of everything that decides its result
--   rewriting_attempt bigint: number of the rewriting, from 1; 0 if a judge
--     refused a variant after it was made
--   is_final boolean: no further rewriting follows
--   reason varchar: reason, in a sentence
--   checks struct[]: name and message of each check that failed
--   prompt varchar: the rejected prompt; null if there is none
--   diff varchar: unified diff of the words of the two prompts; null if there is none
-- equation: none; renames the fields of one event type
-- source: recorder/events, event variant_rejected
-- notes: one row is one rewritten prompt that failed its checks.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    variant_rejected.benchmark,
    variant_rejected.task_id,
    variant_rejected.task_digest,
    variant_rejected.variant_id,
    variant_rejected.severity,
    variant_rejected.segments,
    variant_rejected.rewriter,
    variant_rejected.rewriter_digest,
    variant_rejected.attempt as rewriting_attempt,
    variant_rejected.is_final,
    variant_rejected.reason,
    variant_rejected.checks,
    variant_rejected.prompt,
    variant_rejected.diff
from events
where type = 'variant_rejected'
