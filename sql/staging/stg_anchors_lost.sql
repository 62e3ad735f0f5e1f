-- view: stg_anchors_lost
-- grain: stream_id, sequence
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   model_call_id varchar: first call that lacks the reply after which the message was
--       inserted
--   thread_id varchar: conversation in the trial
--   anchor_call_id varchar: call of that reply
--   reason varchar: how the request was assigned to the main thread
-- equation: none; renames the fields of one event type
-- source: recorder/events, event anchor_lost
-- notes: one row is one restart of the history of an agent behind a gateway.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    anchor_lost.model_call_id,
    anchor_lost.thread_id,
    anchor_lost.anchor_call_id,
    anchor_lost.reason
from events
where type = 'anchor_lost'
