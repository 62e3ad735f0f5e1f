-- view: trial_endings
-- grain: trial_id
-- inputs: int_trials, stg_actions_started, stg_models_called,
--     stg_models_responded
-- outputs:
--   trial_id, stream_id
--   ended_by varchar: how the agent's part ended, docs/metrics.md 1; null if unknown
--   finish_reason varchar: why its last reply ended; null if unknown
--   asks varchar: how its last text asks the user: question, permission, offer or none;
--       null if unknown
--   n_replies bigint: replies of the agent's model in its main thread
--   n_cut_replies bigint: replies that reached their length limit
--   n_refused_replies bigint: replies that the model or a filter refused
--   n_calls_in_text bigint: replies with a tool call left in their text
--   n_split_replies bigint: replies whose tool calls have no index of their own
--   n_tool_calls bigint: actions that are tool calls, including malformed ones
--   actions_digest hugeint: checksum of the sequence of actions; null without actions
-- equation: cut = finish reason length; refused = refusal or content_filter; asks is
--     decided by the judge rules/1 on the last text or the answer handed in
-- source: docs/metrics.md 1, endings and prose; docs/models.md
-- notes: the valid trials. Replies in side threads and to sub-agents are not counted. A
--     trial has 0 replies if its source does not show them. Two trials with the same
--     digest did the same actions, except with a probability of about 2^-64.
with other_threads as (
    select
        stream_id,
        call_id
    from stg_models_called
    where call_kind in ('side', 'sub_agent')
),

replies as (
    select
        responded.stream_id,
        arg_max(responded.finish_reason, responded.sequence) as finish_reason,
        arg_max(
            { 'said': responded.reply_text, 'calls': responded.tool_calls },
            responded.sequence
        ) as last_reply,
        count(*) as n_replies,
        count(*) filter (where responded.finish_reason = 'length') as n_cut_replies,
        count(*) filter (
            where responded.finish_reason in ('refusal', 'content_filter')
        ) as n_refused_replies,
        count(responded.call_in_text) as n_calls_in_text,
        count(responded.calls_split_by) as n_split_replies
    from stg_models_responded as responded
    anti join other_threads
        on
            responded.stream_id = other_threads.stream_id
            and responded.call_id = other_threads.call_id
    where responded.role = 'agent'
    group by responded.stream_id
),

last_words as (
    select
        stream_id,
        last_reply.calls[-1].name as called,
        concat_ws(
            chr(10),
            last_reply.said,
            case
                when json_valid(last_reply.calls[-1].arguments_json)
                    then last_reply.calls[-1].arguments_json ->> '$.answer'
            end
        ) as said
    from replies
),

actions as (
    select
        stream_id,
        count(*) filter (where kind <> 'text') as n_tool_calls,
        sum(hash(action_index, action_name, arguments_json)) as actions_digest
    from stg_actions_started
    group by stream_id
)

select
    trials.trial_id,
    trials.stream_id,
    trials.ended_by,
    replies.finish_reason,
    case
        when last_words.called <> 'submit' then 'none'
        when may_ask(last_words.said) then asking_of(last_words.said)
        when last_words.said <> '' then 'none'
    end as asks,
    coalesce(replies.n_replies, 0) as n_replies,
    coalesce(replies.n_cut_replies, 0) as n_cut_replies,
    coalesce(replies.n_refused_replies, 0) as n_refused_replies,
    coalesce(replies.n_calls_in_text, 0) as n_calls_in_text,
    coalesce(replies.n_split_replies, 0) as n_split_replies,
    coalesce(actions.n_tool_calls, 0) as n_tool_calls,
    actions.actions_digest
from int_trials as trials
left join replies on trials.stream_id = replies.stream_id
left join last_words on trials.stream_id = last_words.stream_id
left join actions on trials.stream_id = actions.stream_id
where trials.trial_state = 'valid'
