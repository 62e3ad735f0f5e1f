-- view: model_calls
-- grain: stream_id, call_id
-- inputs: int_attempts, stg_models_called, stg_models_failed, stg_models_responded
-- outputs:
--   stream_id
--   call_id varchar: id of the call in its stream
--   sequence
--   trial_id varchar: the trial; null for calls outside of trials
--   attempt
--   is_counted boolean: belongs to the attempt that counts
--   role varchar: agent, user_simulator, grader, judge, extractor or rewriter
--   outcome varchar: responded, failed or unanswered
--   thread_id varchar: conversation in the trial
--   call_kind varchar: main, sub_agent, side or retry
--   thread_change varchar: promoted, compacted, restarted or rewound; null without one
--   parent_call_id varchar: call that this one continues
--   message_count bigint: messages sent
--   model
--   served_model varchar: model that answered
--   finish_reason varchar: why the reply ended; null if unknown
--   error_kind varchar: kind of error
--   error_message varchar: what happened; null without an error
--   is_retried boolean: another request follows; null without an error
--   latency_ms double: milliseconds; null if unknown
--   first_token_ms double: milliseconds to the first piece; null if not streamed
--   input_tokens bigint: tokens sent; null if unknown
--   output_tokens bigint: tokens received; null if unknown
--   cached_input_tokens bigint: tokens read from a cache; null if unknown
--   cache_write_tokens bigint: tokens written to a cache, part of input_tokens; null if
--       unknown
--   reasoning_tokens bigint: tokens of reasoning within output_tokens; null if unknown
--   cost_usd double: USD; null if a price is unknown
--   provider_cost_usd double: USD, as the provider reports it; null if it does not
--   reply_text varchar: text of the reply
--   reasoning_text varchar: reasoning text from the provider; null if none
-- equation: none
-- source: docs/models.md; docs/log-format.md, model_called and what answers it
-- notes: the requests of all attempts, and the requests of judges, extractors and
--     rewriters outside of trials. `is_counted` marks the attempt that counts. A crash
--     leaves requests without an answer (unanswered). Tokens and cost of a failed call
--     are those of an interrupted stream or an unusable reply, if they were reported.
select
    called.stream_id,
    called.call_id,
    called.sequence,
    called.trial_id,
    called.attempt,
    coalesce(attempts.is_counted, false) as is_counted,
    called.role,
    case
        when replies.call_id is not null then 'responded'
        when failed.call_id is not null then 'failed'
        else 'unanswered'
    end as outcome,
    called.thread_id,
    called.call_kind,
    called.thread_change,
    called.parent_call_id,
    called.message_count,
    called.model,
    replies.served_model,
    replies.finish_reason,
    failed.error_kind,
    failed.message as error_message,
    failed.is_retried,
    coalesce(replies.latency_ms, failed.latency_ms) as latency_ms,
    replies.first_token_ms,
    coalesce(replies.input_tokens, failed.input_tokens) as input_tokens,
    coalesce(replies.output_tokens, failed.output_tokens) as output_tokens,
    coalesce(replies.cached_input_tokens, failed.cached_input_tokens)
        as cached_input_tokens,
    coalesce(replies.cache_write_tokens, failed.cache_write_tokens)
        as cache_write_tokens,
    coalesce(replies.reasoning_tokens, failed.reasoning_tokens) as reasoning_tokens,
    coalesce(replies.cost_usd, failed.cost_usd) as cost_usd,
    coalesce(replies.provider_cost_usd, failed.provider_cost_usd) as provider_cost_usd,
    replies.reply_text,
    replies.reasoning_text
from stg_models_called as called
left join stg_models_responded as replies
    on
        called.stream_id = replies.stream_id
        and called.call_id = replies.call_id
left join stg_models_failed as failed
    on
        called.stream_id = failed.stream_id
        and called.call_id = failed.call_id
left join int_attempts as attempts
    on called.stream_id = attempts.stream_id
