-- view: stg_models_responded
-- grain: stream_id, call_id
-- inputs: events
-- outputs:
-- equation: none; renames the fields of one event type
-- source: recorder/events, event model_responded
-- notes: one row is one reply of a model.
select
    stream_id,
    sequence,
    trial_id,
    attempt,
    model_responded.call_id,
    model_responded.role,
    model_responded.text as reply_text,
    model_responded.finish_reason,
    model_responded.latency_ms,
    model_responded.input_tokens,
    model_responded.output_tokens,
    model_responded.cached_input_tokens,
    model_responded.cost_usd,
    model_responded.served_model
from events
where type = 'model_responded'
