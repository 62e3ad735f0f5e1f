-- view: answer_uses
-- grain: stream_id, question_id, segment_id
-- inputs: int_question_targets, int_trials, int_variant_segments,
--     stg_actions_started
-- outputs:
--   stream_id
--   question_id varchar: id of the question in its stream
--   segment_id varchar: segment that the answer revealed; null if unknown
--   trial_id, benchmark, task_id, variant_id, agent, condition, dimension
--   segment_value varchar: what was removed
--   is_requested boolean: revealed on request, else volunteered
--   asked_action bigint: action of the question; null if unknown
--   is_used boolean: a later action has the value; null if unknown
--   first_use_action bigint: the first such action; null if there is none
--   actions_until_use bigint: actions from the question to the first use
--   was_used_before boolean: an earlier action has the value; null if unknown
--   reason varchar: why first_use_action is null
-- equation: used = an action after the question, other than another question, whose
--     arguments contain the text of the value, or else all of its parts with a digit
-- source: docs/metrics.md 6, answer_uses, after commitment [Ask Early section 3]
-- notes: there is a row for every segment that an answer revealed, in the attempts that
--     count. Letter case is ignored, blanks at the ends of a value are trimmed, and its
--     text is compared in its JSON form. Parts are dates, times and numbers of 3 or
--     more characters, with 12,000 written as 12000. The reasons are unknown_revealed,
--     unknown_actions, unknown_segment (not one of the removed segments),
--     value_too_short (below 3 characters), value_in_words (not found, and undecidable
--     because it has several words and no such part), and value_never_used (not found,
--     but it may have been used in another form).
with removed as (
    select
        variant_digest,
        segment_id,
        arg_min(dimension, position) as dimension,
        arg_min(segment_value, position) as segment_value
    from int_variant_segments
    group by variant_digest, segment_id
),

forms as (
    select
        *,
        case
            when length(trim(segment_value)) >= 3 then argument_text(segment_value)
        end as needle,
        list_filter(
            regexp_extract_all(
                without_separators(lower(segment_value)),
                '[^\s,;()"'']*\d[^\s,;()"'']*'
            ),
            lambda part: length(part) >= 3
        ) as parts
    from removed
),

revealed as (
    select
        targets.stream_id,
        targets.question_id,
        targets.segment_id,
        trials.trial_id,
        trials.benchmark,
        trials.task_id,
        trials.variant_id,
        trials.agent,
        trials.condition,
        trials.action_count,
        forms.dimension,
        forms.segment_value,
        targets.is_requested,
        targets.action_index as asked_action,
        forms.needle,
        forms.parts
    from int_question_targets as targets
    inner join int_trials as trials
        on targets.stream_id = trials.stream_id
    left join forms
        on
            trials.variant_digest = forms.variant_digest
            and targets.segment_id = forms.segment_id
    where targets.is_given is distinct from false
),

actions as (
    select
        stream_id,
        action_index,
        lower(arguments_json) as arguments,
        without_separators(lower(arguments_json)) as folded_arguments
    from stg_actions_started
    where
        action_name <> 'ask_user'
        and stream_id in (select revealed.stream_id from revealed)
),

searched as (
    select
        revealed.stream_id,
        revealed.question_id,
        revealed.segment_id,
        revealed.asked_action,
        revealed.needle,
        revealed.parts,
        actions.action_index,
        actions.arguments,
        actions.folded_arguments
    from revealed
    inner join actions
        on revealed.stream_id = actions.stream_id
    where revealed.needle is not null
),

held as (
    select
        stream_id,
        question_id,
        segment_id,
        asked_action,
        action_index
    from searched
    where
        contains(arguments, needle)
        or list_bool_and(
            list_transform(parts, lambda part: contains(folded_arguments, part))
        )
),

uses as (
    select
        stream_id,
        question_id,
        segment_id,
        min(action_index) filter (where action_index > asked_action)
            as first_use_action,
        bool_or(action_index < asked_action) as was_used_before
    from held
    group by stream_id, question_id, segment_id
),

found as (
    select
        revealed.*,
        uses.first_use_action,
        coalesce(uses.was_used_before, false) as was_used_before,
        case
            when revealed.segment_id is null then 'unknown_revealed'
            when revealed.action_count is null or revealed.asked_action is null
                then 'unknown_actions'
            when revealed.segment_value is null then 'unknown_segment'
            when revealed.needle is null then 'value_too_short'
            when uses.first_use_action is not null then null
            when len(revealed.parts) = 0 and contains(revealed.needle, ' ')
                then 'value_in_words'
            else 'value_never_used'
        end as reason
    from revealed
    left join uses
        on
            revealed.stream_id = uses.stream_id
            and revealed.question_id = uses.question_id
            and revealed.segment_id = uses.segment_id
)

select
    stream_id,
    question_id,
    segment_id,
    trial_id,
    benchmark,
    task_id,
    variant_id,
    agent,
    condition,
    dimension,
    segment_value,
    is_requested,
    asked_action,
    case
        when reason is null then true
        when reason = 'value_never_used' then false
    end as is_used,
    case when reason is null then first_use_action end as first_use_action,
    case when reason is null then first_use_action - asked_action end
        as actions_until_use,
    case
        when reason is null or reason = 'value_never_used' then was_used_before
        when reason = 'value_in_words' and was_used_before then true
    end as was_used_before,
    reason
from found
