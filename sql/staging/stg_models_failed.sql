-- view: stg_models_failed
-- grain: stream_id, call_id
-- inputs: events
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   sequence bigint: number of the event in its stream, from 0
--   trial_id varchar: the trial
--   attempt integer: number of the attempt, from 1
--   call_id varchar: id of the call in its stream
--   role varchar: agent, user_simulator, grader, judge, extractor or rewriter
--   error_kind varchar: kind of error
--   message varchar: what happened
--   is_retried boolean: another request follows
--   latency_ms double: milliseconds
--   http_status bigint: status of the reply
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
