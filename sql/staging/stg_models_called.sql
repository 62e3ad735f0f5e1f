-- view: stg_models_called
-- grain: stream_id, call_id
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event model_called
-- notes: one row is one request to a model.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    model_called.call_id,
    model_called.role,
    model_called.thread_id,
    model_called.call_kind,
    model_called.model,
    model_called.parent_call_id,
    model_called.message_count
from events
where type = 'model_called'
