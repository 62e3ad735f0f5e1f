-- view: stg_new_tasks_judged
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, recorded_at_us, variant_digest
--   judged_stream_ids varchar[]: the attempts that were judged, in order
--   verdict varchar: confirmed or rejected
--   reason varchar: reason that the judge gave
--   judge varchar: who judged
--   prompt_digest varchar: digest of everything that decides the judge's prompt
-- equation: none; renames the fields of one event type
-- source: recorder/events, event new_task_judged
-- notes: one row is the verdict of one judge on the trials of one variant.
select
    stream_id,
    sequence,
    recorded_at_us,
    new_task_judged.variant_digest,
    list_sort(new_task_judged.judged_stream_ids) as judged_stream_ids,
    new_task_judged.verdict,
    new_task_judged.reason,
    new_task_judged.judge,
    new_task_judged.prompt_digest
from events
where type = 'new_task_judged'
