-- view: int_variants_selected
-- grain: variant_digest
-- inputs: stg_benchmarks_selected
-- outputs:
--   variant_digest varchar: digest of the variant
--   selection varchar: name of the selection
--   ambiguity_class varchar: outcome-critical, divergent or benign
--   classified_by varchar: who gave the class
-- equation: none
-- source: docs/metrics.md 2, which class the tables use; parameter `classifier_agent`
-- notes: the class that a variant was chosen for. Of one name the last recorded
--     selection of a benchmark counts, and of several that chose the variant the last
--     recorded one (ties by stream and sequence); with `classifier_agent` only those
--     by it.
with latest as (
    select
        benchmark,
        selection,
        arg_max(
            {
                'classifier': classifier,
                'variants': variants,
                'place': (recorded_at_us, stream_id, sequence)
            },
            (recorded_at_us, stream_id, sequence)
        ) as chosen
    from stg_benchmarks_selected
    group by benchmark, selection
),

assigned as (
    select
        selection,
        chosen.classifier,
        chosen.place,
        unnest(chosen.variants) as variant
    from latest
    where
        getvariable('classifier_agent') is null
        or chosen.classifier = getvariable('classifier_agent')
)

select
    variant.variant_digest,
    arg_max(selection, place) as selection,
    arg_max(variant.ambiguity_class, place) as ambiguity_class,
    arg_max(classifier, place) as classified_by
from assigned
group by variant.variant_digest
