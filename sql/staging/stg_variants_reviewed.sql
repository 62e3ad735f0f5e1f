-- view: stg_variants_reviewed
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, experiment_id, recorded_at_us, benchmark, task_id
--   variant_id varchar: id of the variant
--   variant_digest
--   reviewer varchar: who read the variant
--   decision varchar: accepted, rejected or edited
--   review_reason varchar: why it was rejected or edited
--   note varchar: further remarks of the reviewer
--   edited_digest varchar: digest of the variant that the reviewer wrote instead
--   shown_s double: time that it was on the reviewer's screen, seconds
-- equation: none; renames the fields of one event type
-- source: recorder/events, event variant_reviewed
-- notes: one row is one decision. A reviewer's last decision about a variant counts.
select
    stream_id,
    sequence,
    experiment_id,
    recorded_at_us,
    variant_reviewed.benchmark,
    variant_reviewed.task_id,
    variant_reviewed.variant_id,
    variant_reviewed.variant_digest,
    variant_reviewed.reviewer,
    variant_reviewed.decision,
    variant_reviewed.reason as review_reason,
    variant_reviewed.note,
    variant_reviewed.edited_digest,
    variant_reviewed.shown_s
from events
where type = 'variant_reviewed'
