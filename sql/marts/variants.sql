-- view: variants
-- grain: variant_digest
-- inputs: ambiguity_classes, int_variants, stg_variants_generated
-- outputs:
--   variant_digest, benchmark, task_id
--   task_digest varchar: digest of the task that it was made from; null if unknown
--   variant_id varchar: id of the variant
--   is_latest boolean: this is the variant that was registered last with this id
--   prompt varchar: prompt that the agent gets
--   origin varchar: who made the variant
--   severity varchar: delete, vaguify, genericize, decoy or environment
--   fault varchar: what is wrong with a request that lacks nothing; null if it lacks
--       something
--   segment_count bigint: removed segments
--   dimensions varchar[]: dimensions of the removed segments, each once, in order
--   failure_mode varchar: what is expected to go wrong
--   ambiguity_class
--   class_source varchar: label, selection or classifier
--   classified_by varchar: who gave the class
--   new_task_verdict varchar: confirmed, rejected, unjudged or not_applicable
--   oracle_decision varchar: CLARIFY or PROCEED
--   reason varchar: why the class is null
--   rewriter varchar: rules/N, or the model's name; null for variants that were not
--       rewritten here
--   rewriter_digest varchar: digest of everything that decides its result
--   diff varchar: unified diff of the words of the two prompts; null without a rewriter
--   registered_at_us bigint: first registration, UTC, microseconds since the epoch
-- equation: none
-- source: docs/metrics.md 2; docs/log-format.md, variant_generated
-- notes: a variant is registered by its rewriter and again by each run. task_digest
--     comes from the last registration that names one, and the rewriter from the first
--     (ties by stream and sequence). The class is the one that the tables use.
with registered as (
    select
        variant_digest,
        any_value(prompt) as prompt,
        any_value(failure_mode) as failure_mode,
        arg_max(task_digest, (recorded_at_us, stream_id, sequence)) as task_digest,
        arg_min(
            {
                'rewriter': rewriter,
                'rewriter_digest': rewriter_digest,
                'diff': diff
            },
            (recorded_at_us, stream_id, sequence)
        ) filter (where rewriter is not null) as rewriting,
        min(recorded_at_us) as registered_at_us,
        max((recorded_at_us, stream_id, sequence)) as last_place
    from stg_variants_generated
    group by variant_digest
)

select
    variants.variant_digest,
    variants.benchmark,
    variants.task_id,
    registered.task_digest,
    variants.variant_id,
    row_number() over (
        partition by variants.benchmark, variants.variant_id
        order by registered.last_place desc
    ) = 1 as is_latest,
    registered.prompt,
    variants.origin,
    variants.severity,
    variants.fault,
    len(variants.segments) as segment_count,
    distinct_in_order(
        list_transform(variants.segments, lambda segment: segment.dimension)
    ) as dimensions,
    registered.failure_mode,
    classes.ambiguity_class,
    classes.class_source,
    classes.classified_by,
    classes.new_task_verdict,
    classes.oracle_decision,
    classes.reason,
    registered.rewriting.rewriter,
    registered.rewriting.rewriter_digest,
    registered.rewriting.diff,
    registered.registered_at_us
from int_variants as variants
inner join registered
    on variants.variant_digest = registered.variant_digest
inner join ambiguity_classes as classes
    on variants.variant_digest = classes.variant_digest
