-- view: selections
-- grain: benchmark, selection, position
-- inputs: int_selections, int_variants
-- outputs:
--   benchmark
--   selection varchar: name of the selection
--   position
--   variant_id varchar: id of the variant
--   variant_digest
--   task_id varchar: id of the task; null if the variant is not registered here
--   severity varchar: delete, vaguify, genericize, decoy or environment; null if the
--       variant is not registered here
--   ambiguity_class varchar: outcome-critical, divergent or benign; unclassified if
--     reviewers chose before any trial
--   classifier varchar: who gave the classes
--   class_wanted bigint: variants of the class that the quota wants; null without a
--       quota
--   class_chosen bigint: variants of the class that were chosen; null without a quota
--   max_variants bigint: maximum number of variants
--   seed bigint: seed for breaking ties
--   stream_id varchar: stream of the run that selected
--   experiment_id, recorded_at_us
-- equation: none
-- source: docs/selection.md; docs/log-format.md, benchmark_selected
-- notes: the chosen variants in the order of choice, from the latest selection of each
--     name and benchmark. The variants that could not be chosen are counted in
--     stg_benchmarks_selected.
with chosen as (
    select
        benchmark,
        selection,
        classifier,
        quotas,
        max_variants,
        seed,
        stream_id,
        experiment_id,
        recorded_at_us,
        unnest(range(1, len(variants) + 1)) as position,
        unnest(variants) as variant
    from int_selections
),

filled as (
    select
        *,
        list_filter(
            quotas, lambda quota: quota.ambiguity_class = variant.ambiguity_class
        )[1] as quota
    from chosen
)

select
    filled.benchmark,
    filled.selection,
    filled.position,
    filled.variant.variant_id,
    filled.variant.variant_digest,
    registered.task_id,
    registered.severity,
    filled.variant.ambiguity_class,
    filled.classifier,
    filled.quota.wanted as class_wanted,
    filled.quota.chosen as class_chosen,
    filled.max_variants,
    filled.seed,
    filled.stream_id,
    filled.experiment_id,
    filled.recorded_at_us
from filled
left join int_variants as registered
    on filled.variant.variant_digest = registered.variant_digest
