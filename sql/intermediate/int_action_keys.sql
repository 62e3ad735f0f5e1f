-- view: int_action_keys
-- grain: stream_id, action_index
-- inputs: int_trials_evaluated, stg_actions_started
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   action_index bigint: number of the action in its attempt, from 1
--   trial_id varchar: the trial
--   action_name varchar: tool name; empty for a turn of text
--   action_key varchar: what makes two actions equal
-- equation: key = name and canonical arguments with trimmed strings, or name only
-- source: docs/metrics.md 4, wasted compute; parameter `wasted_match`
-- notes: only trials of `full` and of the injected conditions. ask_user, submit and
--     turns of text alone are left out. Arguments are recorded as canonical JSON, so
--     they are parsed only where a string may have blanks at an end.
with counted as (
    select
        trials.trial_id,
        trials.stream_id
    from int_trials_evaluated as trials
    where
        trials.is_measured
        and (trials.condition = 'full' or trials.inject_percent is not null)
)

select
    actions.stream_id,
    actions.action_index,
    counted.trial_id,
    actions.action_name,
    case
        when getvariable('wasted_match') = 'name' then actions.action_name
        when
            actions.kind = 'malformed'
            or regexp_matches(
                actions.arguments_json, '"\s|\s"|\\[nrtfbu]|[^\x20-\x7e]'
            )
            then
                actions.action_name
                || chr(10) || trimmed_arguments(actions.arguments_json)
        else actions.action_name || chr(10) || actions.arguments_json
    end as action_key
from stg_actions_started as actions
inner join counted on actions.stream_id = counted.stream_id
where
    actions.kind <> 'text' and actions.action_name not in ('ask_user', 'submit')
