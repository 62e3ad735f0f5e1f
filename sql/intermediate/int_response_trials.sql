-- view: int_response_trials
-- grain: trial_id, agent
-- inputs: int_question_targets, int_trials, int_trials_evaluated, questions,
--     wasted_trials
-- outputs:
--   trial_id, benchmark, agent, variant_id, condition
--   wasted_actions bigint: of the whole trial; null if unknown
--   waste_reason varchar: why it is null
--   asked_again_count bigint: questions that ask for a segment that an earlier one
--       asked for; null if unknown
--   guessed_count bigint: segments asked for and never given, if the trial was handed
--       in; null if unknown
--   answer_count bigint: questions that got an answer
--   actions_until_answers bigint: actions from these questions to their answers
-- equation: none
-- source: docs/metrics.md 4, what a late or missing answer costs
-- notes: measured trials of variants under ask_user and ask_user_NAME of agents that
--     ran one of the latter. The chosen judge says what was asked for and given.
with trials as (
    select
        trial_id,
        stream_id,
        benchmark,
        agent,
        variant_id,
        condition,
        is_measured
    from int_trials_evaluated
    where condition = 'ask_user' or condition like 'ask\_user\_%' escape '\'
    qualify
        bool_or(condition <> 'ask_user') over (
            partition by benchmark, agent, variant_id
        )
),

targets as (
    select
        stream_id,
        question_id,
        segment_id,
        is_requested,
        is_given,
        sequence
        > min(sequence) filter (where is_requested) over (
            partition by stream_id, segment_id
        ) as is_later
    from int_question_targets
    where stream_id in (select trials.stream_id from trials)
),

segments as (
    select
        stream_id,
        segment_id,
        bool_or(is_requested) and not bool_or(is_given) as is_never_given
    from targets
    group by stream_id, segment_id
),

guesses as (
    select
        stream_id,
        count(*) filter (where is_never_given) as never_given_count
    from segments
    group by stream_id
),

asked as (
    select
        stream_id,
        bool_or(segment_id is null) as has_unknown,
        count(distinct question_id) filter (where is_requested and is_later)
            as asked_again_count
    from targets
    group by stream_id
),

answers as (
    select
        stream_id,
        count(*) as answer_count,
        sum(coalesce(answered_after_action - action_index, 0))::bigint
            as actions_until_answers
    from questions
    where
        response_state in ('answered', 'late')
        and stream_id in (select trials.stream_id from trials)
    group by stream_id
)

select
    trials.trial_id,
    trials.benchmark,
    trials.agent,
    trials.variant_id,
    trials.condition,
    wasted.wasted_actions,
    wasted.reason as waste_reason,
    case
        when not coalesce(asked.has_unknown, false)
            then coalesce(asked.asked_again_count, 0)
    end as asked_again_count,
    case
        when not coalesce(asked.has_unknown, false)
            then if(
                int_trials.ended_by = 'submitted',
                coalesce(guesses.never_given_count, 0),
                0
            )
    end as guessed_count,
    coalesce(answers.answer_count, 0) as answer_count,
    coalesce(answers.actions_until_answers, 0) as actions_until_answers
from trials
inner join int_trials on trials.trial_id = int_trials.trial_id
left join wasted_trials as wasted
    on
        trials.trial_id = wasted.trial_id
        and trials.agent = wasted.agent
left join asked on trials.stream_id = asked.stream_id
left join guesses on trials.stream_id = guesses.stream_id
left join answers on trials.stream_id = answers.stream_id
where trials.is_measured
