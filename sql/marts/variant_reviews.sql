-- view: variant_reviews
-- grain: variant_digest, reviewer
-- inputs: stg_variants_reviewed
-- outputs:
--   variant_digest
--   reviewer varchar: who read the variant
--   benchmark, task_id
--   variant_id varchar: id of the variant
--   decision varchar: accepted, rejected or edited
--   review_reason varchar: why it was rejected or edited; null if accepted
--   note varchar: further remarks of the reviewer
--   edited_digest varchar: digest of the variant that the reviewer wrote instead
--   shown_s double: time that it was on the reviewer's screen, seconds
--   decided_count bigint: number of the reviewer's decisions about it; the last one
--       counts
--   recorded_at_us
-- equation: none
-- source: docs/selection.md
-- notes: if a reviewer wrote a variant, it has no row of that reviewer. For selections,
--     writing a variant counts as accepting it.
select
    variant_digest,
    reviewer,
    benchmark,
    task_id,
    variant_id,
    decision,
    review_reason,
    note,
    edited_digest,
    shown_s,
    count(*) over (partition by variant_digest, reviewer) as decided_count,
    recorded_at_us
from stg_variants_reviewed
qualify
    row_number() over (
        partition by variant_digest, reviewer
        order by recorded_at_us desc, stream_id desc, sequence desc
    ) = 1
