-- view: stg_benchmarks_selected
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us
--   selection varchar: name of the selection
--   benchmark
--   seed bigint: seed for breaking ties
--   max_variants bigint: maximum number of variants
--   classifier varchar: who gave the classes
--   quotas struct[]: class, wanted and chosen number of each quota
--   variants struct[]: id, digest and class of each chosen variant, in order
--   excluded struct[]: reason and number of variants that could not be chosen
-- equation: none; renames the fields of one event type
-- source: recorder/events, event benchmark_selected
-- notes: one row is one selection. If several selections have the same benchmark and
--     name, the last recorded one counts.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    benchmark_selected.selection,
    benchmark_selected.benchmark,
    benchmark_selected.seed,
    benchmark_selected.max_variants,
    benchmark_selected.classifier,
    benchmark_selected.quotas,
    benchmark_selected.variants,
    benchmark_selected.excluded
from events
where type = 'benchmark_selected'
