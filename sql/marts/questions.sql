-- view: questions
-- grain: stream_id, question_id
-- inputs: int_action_counts, int_attempts, int_exchange_readings,
--     int_questions_placed, stg_questions_answered, stg_questions_asked
-- outputs:
--   stream_id
--   question_id varchar: id of the question in its stream
--   trial_id, attempt
--   is_counted boolean: belongs to the attempt that counts
--   question_number bigint: number of the question, from 1
--   action_index
--   timing_pct double: place of the question among the actions, %
--   question varchar: the question
--   context varchar: context given with the question
--   answer varchar: reply of the simulated user; null if unknown
--   simulator varchar: who answered
--   requested_segment_ids varchar[]: revealed on request; null if unknown
--   volunteered_segment_ids varchar[]: revealed without being asked for
--   withheld_segment_ids varchar[]: asked for and not given; null if unknown
--   rejected_problems varchar[]: why replies failed their checks: empty, cut, echo,
--       unstructured, withheld, volunteered or leaked
--   medium varchar: mcp, built_in, elicitation, command or prose
--   header varchar: header of the question; empty without one
--   options struct[]: label, description, and ids of the removed segments whose values
--       the option says (holds); empty without options
--   recommended varchar: label of the option that the agent recommends, or null
--   batch_id varchar: id that the questions of one call share; null for a single
--       question
--   response_state varchar: answered, or why there is no prompt answer: declined,
--       dismissed, timed_out, late or unavailable; null if the trial broke off
--   answered_after_action bigint: number of actions after which a message gave the
--       answer; null without an answer, or if the result of the question gave it
--   picked varchar[]: labels of the options that the user picked; empty for an answer
--       in words
--   answered_by varchar: name of the person who answered or declined; null if simulated
--   saw_values boolean: this person had the full prompt before them
--   answer_seconds double: seconds from the question to its answer; null if unknown
--   is_truth_offered boolean: an option has a value that the question asks for; null
--       without options, or if it asks for no value or that is unknown
--   is_recommended_wrong boolean: the recommended option says no such value; null in
--       the same cases
--   exchange_judge varchar: judge of what was asked for and given; null if unknown
--   request varchar: what the question asks for: segments, something_else or
--       everything; null if unknown
--   verdict varchar: right, withheld, volunteered or leaked; null if unknown
-- equation: timing_pct = 100 * action_index / action_count
-- source: docs/metrics.md 1, questions, and 3, question quality
-- notes: the questions of all attempts; `is_counted` marks the attempt that counts. An
--     answer is null if the simulated user failed or gave no answer, or if the source
--     lacks the answer. The columns about revealed segments are null if this is
--     unknown, or if the chosen `exchange_judge` did not read the exchange.
with judged as (
    select
        *,
        list_filter(gives, lambda id: list_contains(asks_for, id))
            as requested_segment_ids,
        list_filter(gives, lambda id: not list_contains(asks_for, id))
            as volunteered_segment_ids
    from int_exchange_readings
    where is_chosen
)

select
    placed.stream_id,
    placed.question_id,
    asked.trial_id,
    asked.attempt,
    coalesce(attempts.is_counted, false) as is_counted,
    row_number() over (
        partition by placed.stream_id order by placed.sequence
    ) as question_number,
    placed.action_index,
    100.0 * placed.action_index / nullif(int_action_counts.action_count, 0)
        as timing_pct,
    asked.question,
    asked.context,
    answered.answer,
    answered.simulator,
    judged.requested_segment_ids,
    judged.volunteered_segment_ids,
    judged.withheld as withheld_segment_ids,
    list_transform(
        answered.rejected, lambda reply: reply.problem
    ) as rejected_problems,
    asked.medium,
    asked.header,
    asked.options,
    asked.recommended,
    asked.batch_id,
    answered.response_state,
    answered.after_action as answered_after_action,
    answered.picked,
    answered.answered_by,
    answered.saw_values,
    answered.latency_ms / 1000 as answer_seconds,
    case
        when len(asked.options) > 0 and len(judged.asks_for) > 0
            then list_bool_or(
                list_transform(
                    asked.options,
                    lambda option: list_has_any(option.holds, judged.asks_for)
                )
            )
    end as is_truth_offered,
    case
        when asked.recommended is not null and len(judged.asks_for) > 0
            then not list_bool_or(
                list_transform(
                    asked.options,
                    lambda option: option.label = asked.recommended
                    and list_has_any(option.holds, judged.asks_for)
                )
            )
    end as is_recommended_wrong,
    judged.judge as exchange_judge,
    judged.request,
    judged.verdict
from int_questions_placed as placed
inner join stg_questions_asked as asked
    on
        placed.stream_id = asked.stream_id
        and placed.sequence = asked.sequence
left join stg_questions_answered as answered
    on
        placed.stream_id = answered.stream_id
        and placed.question_id = answered.question_id
left join judged
    on
        placed.stream_id = judged.stream_id
        and placed.question_id = judged.question_id
left join int_attempts as attempts
    on placed.stream_id = attempts.stream_id
left join int_action_counts
    on placed.stream_id = int_action_counts.stream_id
