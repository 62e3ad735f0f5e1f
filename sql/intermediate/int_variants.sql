-- view: int_variants
-- grain: variant_digest
-- inputs: stg_variants_generated
-- outputs:
--   variant_digest, benchmark, task_id, variant_id
--   segments struct[]: removed segments in order
--   origin varchar: who made the variant
--   severity varchar: delete, vaguify, genericize, decoy or environment
--   fault varchar: what is wrong with a request that lacks nothing; null if it lacks
--       something
--   ambiguity_class
--   classified_by varchar: who gave the class
-- equation: none
-- source: docs/metrics.md 2, which class the tables use
-- notes: the digest does not cover the label, so a label can be added later. The last
--     recorded label counts (ties by stream and sequence).
with labels as (
    select
        variant_digest,
        arg_max(
            { 'ambiguity_class': ambiguity_class, 'classified_by': classified_by },
            (recorded_at_us, stream_id, sequence)
        ) as label
    from stg_variants_generated
    where ambiguity_class is not null
    group by variant_digest
),

variants as (
    select
        variant_digest,
        any_value(benchmark) as benchmark,
        any_value(task_id) as task_id,
        any_value(variant_id) as variant_id,
        any_value(segments) as segments,
        any_value(origin) as origin,
        any_value(severity) as severity,
        any_value(fault) as fault
    from stg_variants_generated
    group by variant_digest
)

select
    variants.variant_digest,
    variants.benchmark,
    variants.task_id,
    variants.variant_id,
    variants.segments,
    variants.origin,
    variants.severity,
    variants.fault,
    labels.label.ambiguity_class,
    labels.label.classified_by
from variants
left join labels on variants.variant_digest = labels.variant_digest
