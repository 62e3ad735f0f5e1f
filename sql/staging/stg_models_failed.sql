-- view: stg_models_failed
-- grain: stream_id, call_id
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event model_failed
-- notes: one row is one request without a usable reply.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    model_failed.call_id,
    model_failed.role,
    model_failed.error_kind,
    model_failed.message,
    model_failed.is_retried,
    model_failed.latency_ms,
    model_failed.http_status
from events
where type = 'model_failed'
