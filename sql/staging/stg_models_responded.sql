-- view: stg_models_responded
-- grain: stream_id, call_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   call_id varchar: id of the call in its stream
--   role varchar: agent, user_simulator, grader, judge, extractor or rewriter
--   reply_text varchar: text of the reply
--   tool_calls struct[]: call_id, name and arguments_json of each call
--   finish_reason varchar: why the reply ended; null if unknown
--   latency_ms double: milliseconds; null if unknown
--   input_tokens bigint: tokens sent; null if unknown
--   output_tokens bigint: tokens received; null if unknown
--   cached_input_tokens bigint: tokens read from a cache; null if unknown
--   cost_usd double: USD; null if a price is unknown
--   served_model varchar: model that answered
--   reasoning_text varchar: reasoning text from the provider; null if none
--   reasoning_tokens bigint: tokens of reasoning within output_tokens; null if unknown
--   cache_write_tokens bigint: tokens written to a cache, part of input_tokens; null if
--       unknown
--   provider_cost_usd double: USD, as the provider reports it; null if it does not
--   provider_state_json varchar: state that must be sent back to the provider
--       unchanged; null if none
--   sent_sha256 varchar: SHA-256 of the request's body as sent; null if not seen
--   received_sha256 varchar: SHA-256 of the reply's body as received; null if not seen
--   first_token_ms double: milliseconds to the first piece; null if not streamed
--   changes_json varchar: parameters that a library changed; null if none
--   call_in_text varchar: notation of a tool call left in the text; null without one
--   calls_split_by varchar: id or name, if this separates the calls of a stream and
--       their index does not; else null
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
    model_responded.tool_calls,
    model_responded.finish_reason,
    model_responded.latency_ms,
    model_responded.usage.input_tokens,
    model_responded.usage.output_tokens,
    model_responded.usage.cached_input_tokens,
    model_responded.usage.cost_usd,
    model_responded.served_model,
    model_responded.reasoning.text as reasoning_text,
    model_responded.usage.reasoning_tokens,
    model_responded.usage.cache_write_tokens,
    model_responded.usage.provider_cost_usd,
    model_responded.reasoning.provider_state_json,
    model_responded.wire.sent_sha256,
    model_responded.wire.received_sha256,
    model_responded.wire.first_token_ms,
    model_responded.wire.changes_json,
    model_responded.wire.call_in_text,
    model_responded.wire.calls_split_by
from events
where type = 'model_responded'
