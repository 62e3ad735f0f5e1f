-- view: trajectory
-- grain: trial_id, step
-- inputs: events, int_trials
-- outputs:
--   benchmark, agent, condition, trial_id, stream_id
--   step bigint: place in the trial, from 1
--   phase varchar: before: an action up to the injection; after: everything else; null
--       without an injection
--   kind varchar: action, question, injection, checkpoint or end
--   action_index
--   name varchar: name of the tool, simulator, checkpoint or ending; text for a turn of
--       text
--   input varchar: arguments, question, message or answer
--   outcome varchar: result, reply, points or success
--   is_error boolean: the agent got an error
-- equation: none; the events of one trial in recorded order
-- source: docs/metrics.md 6 [Ask Early table 12]; parameter `trial`
-- notes: the rows are those of the attempt that counts, or else of the latest. Without
--     `trial` there are no rows and nothing is read. With `trial` only the events of
--     that trial are read. The staging views are not used, because they would read the
--     joined columns of every trial. An ask_user call is an action and, if it reached
--     the server, a question.
with chosen as (
    select
        benchmark,
        agent,
        condition,
        trial_id,
        keys_stream_id as stream_id,
        is_injected,
        injected_after_action
    from int_trials
    where trial_id = getvariable('trial')
),

facts as (
    select
        stream_id,
        sequence,
        type,
        action_started,
        action_finished,
        question_asked,
        question_answered,
        clarification_injected,
        checkpoint_scored,
        trial_finished,
        trial_failed
    from events
    where
        trial_id = getvariable('trial')
        and type in (
            'action_started',
            'action_finished',
            'question_asked',
            'question_answered',
            'clarification_injected',
            'checkpoint_scored',
            'trial_finished',
            'trial_failed'
        )
),

steps as (
    select
        facts.stream_id,
        facts.sequence,
        case facts.type
            when 'action_started' then 'action'
            when 'question_asked' then 'question'
            when 'clarification_injected' then 'injection'
            when 'checkpoint_scored' then 'checkpoint'
            else 'end'
        end as kind,
        coalesce(
            facts.action_started.action_index,
            facts.question_asked.action_index,
            facts.clarification_injected.after_action
        ) as action_index,
        coalesce(
            nullif(facts.action_started.name, ''),
            facts.action_started.kind,
            closing.question_answered.simulator,
            facts.clarification_injected.status,
            facts.checkpoint_scored.checkpoint_id,
            facts.trial_finished.ended_by,
            facts.trial_failed.boundary
        ) as name,
        coalesce(
            facts.action_started.arguments_json,
            facts.question_asked.question,
            facts.clarification_injected.message,
            facts.checkpoint_scored.label,
            facts.trial_finished.final_answer,
            facts.trial_failed.message
        ) as input,
        case facts.type
            when 'action_started' then closing.action_finished.result
            when 'question_asked' then closing.question_answered.answer
            when 'clarification_injected' then facts.clarification_injected.reason
            when 'checkpoint_scored'
                then concat(
                    facts.checkpoint_scored.score,
                    ' of ',
                    facts.checkpoint_scored.total
                )
            when 'trial_finished'
                then case
                    when facts.trial_finished.is_success then 'success'
                    else 'no success'
                end
            else 'failed'
        end as outcome,
        closing.action_finished.is_error
    from facts
    left join facts as closing
        on
            facts.stream_id = closing.stream_id
            and (
                facts.action_started.action_index
                = closing.action_finished.action_index
                or facts.question_asked.question_id
                = closing.question_answered.question_id
            )
    where
        facts.type not in ('action_finished', 'question_answered')
        and coalesce(facts.checkpoint_scored.is_primary, true)
)

select
    chosen.benchmark,
    chosen.agent,
    chosen.condition,
    chosen.trial_id,
    chosen.stream_id,
    row_number() over (order by steps.sequence) as step,
    case
        when not coalesce(chosen.is_injected, false) then null
        when
            steps.kind in ('action', 'question')
            and steps.action_index <= chosen.injected_after_action
            then 'before'
        else 'after'
    end as phase,
    steps.kind,
    steps.action_index,
    steps.name,
    steps.input,
    steps.outcome,
    steps.is_error
from steps
inner join chosen on steps.stream_id = chosen.stream_id
