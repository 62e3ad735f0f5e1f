-- view: int_selections
-- grain: benchmark, selection
-- inputs: stg_benchmarks_selected
-- outputs:
--   benchmark
--   selection varchar: name of the selection
--   classifier varchar: who gave the classes
--   quotas struct[]: class, wanted and chosen number of each quota
--   variants struct[]: id, digest and class of each chosen variant, in order
--   max_variants bigint: maximum number of variants
--   seed bigint: seed for breaking ties
--   experiment_id, recorded_at_us, stream_id, sequence
-- equation: none
-- source: docs/selection.md
-- notes: if selections of a benchmark have the same name, the last recorded one counts
--     (ties by stream and sequence).
with ranked as (
    select
        *,
        row_number() over (
            partition by benchmark, selection
            order by recorded_at_us desc, stream_id desc, sequence desc
        ) as recency
    from stg_benchmarks_selected
)

select
    benchmark,
    selection,
    classifier,
    quotas,
    variants,
    max_variants,
    seed,
    experiment_id,
    recorded_at_us,
    stream_id,
    sequence
from ranked
where recency = 1
