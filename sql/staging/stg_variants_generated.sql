-- view: stg_variants_generated
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us, variant_digest, benchmark,
--   task_id, variant_id
--   prompt varchar: prompt that the agent gets
--   segments struct[]: removed segments in order
--   origin varchar: who made the variant
--   severity varchar: delete, vaguify, genericize, decoy or environment
--   fault varchar: what is wrong with a request that lacks nothing; null if it lacks
--       something
--   expected_questions struct[]: segment and questions that a good agent might ask
--   failure_mode varchar: what is expected to go wrong
--   ambiguity_class
--   classified_by varchar: who gave the class
--   task_digest varchar: digest of the task that it was made from; null if unknown
--   rewriter varchar: rules/N, or the model's name; null for variants that were not
--       rewritten here
--   rewriter_digest varchar: digest of everything that decides its result
--   judge varchar: the model that accepted it; null if only rules did
--   diff varchar: unified diff of the words of the two prompts
--   terminal_states bigint[][]: terminal states behind an imported label, each once
-- equation: none; renames the fields of one event type
-- source: recorder/events, event variant_generated
-- notes: one row is one registration of one variant.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    variant_generated.variant_digest,
    variant_generated.variant.benchmark,
    variant_generated.variant.task_id,
    variant_generated.variant.variant_id,
    variant_generated.variant.prompt,
    variant_generated.variant.segments,
    variant_generated.variant.origin,
    variant_generated.variant.severity,
    variant_generated.variant.fault,
    variant_generated.variant.expected_questions,
    variant_generated.variant.failure_mode,
    variant_generated.variant.ambiguity_class,
    variant_generated.variant.classified_by,
    variant_generated.task_digest,
    variant_generated.rewriter,
    variant_generated.rewriter_digest,
    variant_generated.judgement.judge,
    variant_generated.diff,
    variant_generated.terminal_states
from events
where type = 'variant_generated'
