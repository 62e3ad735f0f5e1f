-- view: segments
-- grain: variant_digest, position
-- inputs: int_variants, stg_variants_generated
-- outputs:
--   variant_digest, position, benchmark, task_id
--   variant_id varchar: id of the variant
--   segment_id varchar: id of the segment
--   severity varchar: delete, vaguify, genericize, decoy or environment
--   dimension
--   subdimension varchar: open vocabulary
--   segment_value varchar: what was removed
--   segment_text varchar: all removed words, including those around the value; null if
--       unknown
--   decoy varchar: the wrong value that replaces it; null if it was only removed
--   criticality double: 0, 0.5 or 1; null if unknown
--   guessability double: 0, 0.5 or 1; null if unknown
--   priority double: 0 to 1; null if a score is unknown
--   is_used_in_trajectory boolean: full trials use the value; null if unknown
--   first_use_pct double: share of actions before first use, 0 to 1; null if unknown
--   checkpoint_refs varchar[]: ids of the checkpoints that need it
--   kind varchar: removed, or contradiction (two sentences of the prompt disagree)
--   revealed_after varchar: segment that must be known first; null if none
--   expected_questions varchar[]: questions that a good agent might ask about it
-- equation: priority = criticality * (1 - guessability)
-- source: docs/metrics.md 2, priority [LHAW 3.2]
-- notes: the removed segments, once for each variant. All segments that an extractor
--     found in a task are in stg_segments_extracted.
with registered as (
    select
        variant_digest,
        any_value(expected_questions) as expected_questions
    from stg_variants_generated
    group by variant_digest
),

numbered as (
    select
        variants.variant_digest,
        variants.benchmark,
        variants.task_id,
        variants.variant_id,
        variants.severity,
        registered.expected_questions,
        unnest(range(1, len(variants.segments) + 1)) as position,
        unnest(variants.segments) as segment
    from int_variants as variants
    inner join registered
        on variants.variant_digest = registered.variant_digest
)

select
    variant_digest,
    position,
    benchmark,
    task_id,
    variant_id,
    segment.segment_id,
    severity,
    segment.dimension,
    segment.subdimension,
    segment.value as segment_value,
    segment.text as segment_text,
    segment.decoy,
    segment.criticality,
    segment.guessability,
    segment.criticality * (1 - segment.guessability) as priority,
    segment.is_used_in_trajectory,
    segment.first_use_pct,
    segment.checkpoint_refs,
    segment.kind,
    segment.revealed_after,
    flatten(
        list_transform(
            list_filter(
                expected_questions,
                lambda expected: expected.segment_id = segment.segment_id
            ),
            lambda expected: expected.questions
        )
    ) as expected_questions
from numbered
