-- view: stg_variants_generated
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event variant_generated
-- notes: one row is one registration of one variant.
select
    stream_id,
    sequence,
    recorded_at_us,
    variant_generated.variant_digest,
    variant_generated.variant.benchmark,
    variant_generated.variant.task_id,
    variant_generated.variant.variant_id,
    variant_generated.variant.prompt,
    variant_generated.variant.segments,
    variant_generated.variant.origin,
    variant_generated.variant.severity,
    variant_generated.variant.failure_mode,
    variant_generated.variant.ambiguity_class,
    variant_generated.variant.classified_by
from events
where type = 'variant_generated'
