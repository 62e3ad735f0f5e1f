-- view: stg_models_responded
-- grain: stream_id, call_id
-- inputs: events
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   sequence bigint: number of the event in its stream, from 0
--   trial_id varchar: the trial
--   attempt integer: number of the attempt, from 1
--   call_id varchar: id of the call in its stream
--   role varchar: agent, user_simulator, grader, judge, extractor or rewriter
--   reply_text varchar: text of the reply
--   finish_reason varchar: why the reply ended; null if unknown
--   latency_ms double: milliseconds; null if unknown
--   input_tokens bigint: tokens sent; null if unknown
--   output_tokens bigint: tokens received; null if unknown
--   cached_input_tokens bigint: tokens read from a cache; null if unknown
--   cost_usd double: USD; null if a price is unknown
--   served_model varchar: model that answered
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
