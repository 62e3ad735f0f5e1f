-- view: stg_segments_extracted
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us, benchmark, task_id, task_digest
--   extractor varchar: rules/N, or the model's name
--   extractor_digest varchar: digest of everything that decides its result
--   grounding varchar[]: what the extractor used besides the prompt
--   segments struct[]: the segments found, in the order of the prompt
--   rejected struct[]: value and reason of each proposal that was rejected
--   input_tokens bigint: tokens sent to its model; null without a model
--   output_tokens bigint: tokens received from its model; null without a model
--   cost_usd double: price of its model calls; null if unknown or without a model
-- equation: none; renames the fields of one event type
-- source: recorder/events, event segments_extracted
-- notes: one row is one extraction from one task.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    segments_extracted.benchmark,
    segments_extracted.task_id,
    segments_extracted.task_digest,
    segments_extracted.extractor,
    segments_extracted.extractor_digest,
    segments_extracted.grounding,
    segments_extracted.segments,
    segments_extracted.rejected,
    segments_extracted.usage.input_tokens,
    segments_extracted.usage.output_tokens,
    segments_extracted.usage.cost_usd
from events
where type = 'segments_extracted'
