-- view: stg_models_called
-- grain: stream_id, call_id
-- inputs: events
-- outputs:
--   stream_id, sequence, trial_id, attempt
--   call_id varchar: id of the call in its stream
--   role varchar: agent, user_simulator, grader, judge, extractor or rewriter
--   thread_id varchar: conversation in the trial
--   call_kind varchar: main, sub_agent, side or retry
--   kind_reason varchar: why a gateway assigned this kind; null without a gateway
--   thread_change varchar: promoted, compacted, restarted or rewound; null without one
--   model
--   parent_call_id varchar: call that this one continues
--   message_count bigint: messages sent
--   shared_count bigint: leading messages shared with the call parent_call_id and its
--       reply
--   new_messages_json varchar: the other messages; the result of an action is given
--       only by its number
--   tools_json varchar: tools, if they are the first of the thread or have changed
--   parameters_json varchar: parameters; null if unknown
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
    model_called.kind_reason,
    model_called.thread_change,
    model_called.model,
    model_called.parent_call_id,
    model_called.message_count,
    model_called.shared_count,
    model_called.new_messages_json,
    model_called.tools_json,
    model_called.parameters_json
from events
where type = 'model_called'
