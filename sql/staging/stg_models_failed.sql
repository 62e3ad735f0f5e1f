-- view: stg_models_failed
-- grain: stream_id, call_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   call_id varchar: id of the call in its stream
--   role varchar: agent, user_simulator, grader, judge, extractor or rewriter
--   error_kind varchar: kind of error
--   message varchar: what happened
--   is_retried boolean: another request follows
--   latency_ms double: milliseconds
--   http_status bigint: status of the reply
--   sent_sha256 varchar: SHA-256 of the request's body as sent; null if not seen
--   received_sha256 varchar: SHA-256 of the reply's body as received; null if not seen
--   input_tokens bigint: reported tokens sent for a broken stream; null if not reported
--   output_tokens bigint: reported tokens received in a broken stream; null if not
--       reported
--   cached_input_tokens bigint: input tokens read from a cache; null if unknown
--   cache_write_tokens bigint: input tokens written to a cache; null if unknown
--   reasoning_tokens bigint: output tokens of reasoning; null if unknown
--   cost_usd double: lower bound, USD; null if unknown
--   provider_cost_usd double: USD, as the provider reports it; null if it does not
--   used_nothing boolean: it cost nothing, although no usage was reported
-- equation: none; renames the fields of one event type
-- source: recorder/events, event model_failed; docs/metrics.md 8
-- notes: one row is one request without a usable reply. A request that was never sent,
--     or was refused with an HTTP error, used nothing. Any other request may have been
--     answered and paid for (a timeout, including HTTP 408 and 504, a broken
--     connection, or an unusable reply). So its usage is unknown if it was not
--     reported.
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
    model_failed.http_status,
    model_failed.wire.sent_sha256,
    model_failed.wire.received_sha256,
    model_failed.usage.input_tokens,
    model_failed.usage.output_tokens,
    model_failed.usage.cached_input_tokens,
    model_failed.usage.cache_write_tokens,
    model_failed.usage.reasoning_tokens,
    model_failed.usage.cost_usd,
    model_failed.usage.provider_cost_usd,
    coalesce(
        model_failed.usage.input_tokens,
        model_failed.usage.output_tokens,
        model_failed.usage.cached_input_tokens,
        model_failed.usage.cache_write_tokens,
        model_failed.usage.reasoning_tokens,
        model_failed.usage.cost_usd,
        model_failed.usage.provider_cost_usd
    ) is null
    and (
        model_failed.wire.sent_sha256 is null
        or coalesce(model_failed.http_status not in (408, 504), false)
    ) as used_nothing
from events
where type = 'model_failed'
