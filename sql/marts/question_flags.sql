-- view: question_flags
-- grain: stream_id, flag
-- inputs: int_question_facts, stg_questions_judged
-- outputs:
--   stream_id, trial_id
--   category varchar: failure mode, one of seven
--   flag varchar: one of the three flags of the category
--   verdict varchar: yes, no or not_applicable; null if unjudged or unknown
--   source varchar: computed or judged
--   reason varchar: reason for the verdict, or why there is no verdict
--   judge varchar: who judged; null for computed flags
-- equation: the computed flags are redundant_questions: a question targets a segment
--     that an earlier answer revealed; upfront_question_dump: every question is among
--     the first max(3, ceil(0.1 * actions)) actions with no other action between them;
--     late_clarification: a segment that full trials use in their first half is first
--     asked for after its first use there, as a share of the length; excessive_cost:
--     precision < 0.3; insufficient_question_depth: recall < 0.5. All other flags are
--     judged
-- source: docs/metrics.md 3, failure modes [LHAW section 4.4 and appendix J.1];
--     parameter `judge`
-- notes: every valid trial with questions has 21 rows. A flag whose prerequisite is
--     known to fail is not_applicable (prerequisite_fails), whatever a judge says. If
--     no recorded fact decides a prerequisite, the judge does. Critical means a
--     criticality of 0.5 or more. If the score is unknown, the judge decides a judged
--     flag, and a computed flag is not_applicable (unknown_criticality). Under the
--     simulator dump it is unknown what a question was about, so the computed flags
--     except upfront_question_dump are not_applicable (simulator_answers_everything).
--     If it is unknown what an answer revealed, these flags are null
--     (unknown_revealed). If a trial has several verdicts, the last recorded verdict
--     counts (ties by stream and sequence). If a judge is chosen, only that judge's
--     verdicts count. A trial without a verdict is unjudged.
with verdicts as (
    select
        judged_stream_id,
        arg_max(
            { 'judge': judge, 'flags': flags }, (recorded_at_us, stream_id, sequence)
        ) as said
    from stg_questions_judged
    where getvariable('judge') is null or judge = getvariable('judge')
    group by judged_stream_id
),

judged as (
    select
        judged_stream_id,
        said.judge,
        unnest(said.flags) as judged_flag
    from verdicts
),

trials as (
    select
        facts.*,
        unnest(
            [
                {
                    'category': 'question_quality',
                    'flags': [
                        'vague_questions',
                        'compound_questions',
                        'closed_questions'
                    ]
                },
                {
                    'category': 'question_targeting',
                    'flags': [
                        'missed_critical_segments',
                        'wrong_dimension_focus',
                        'inferable_information_asked'
                    ]
                },
                {
                    'category': 'information_integration',
                    'flags': [
                        'ignoring_user_response',
                        'incorrect_information_application',
                        'partial_information_utilization'
                    ]
                },
                {
                    'category': 'over_clarification',
                    'flags': [
                        'redundant_questions',
                        'unnecessary_questions',
                        'excessive_cost'
                    ]
                },
                {
                    'category': 'under_clarification',
                    'flags': [
                        'premature_execution',
                        'insufficient_question_depth',
                        'false_confidence'
                    ]
                },
                {
                    'category': 'timing_and_strategy',
                    'flags': [
                        'late_clarification',
                        'upfront_question_dump',
                        'inefficient_question_sequence'
                    ]
                },
                {
                    'category': 'response_misinterpretation',
                    'flags': [
                        'literal_misunderstanding',
                        'context_misapplication',
                        'implicit_information_missed'
                    ]
                }
            ]
        ) as listed
    from int_question_facts as facts
),

flags as (
    select
        *,
        listed.category,
        unnest(listed.flags) as flag
    from trials
),

examined as (
    select
        *,
        flag in (
            'redundant_questions',
            'excessive_cost',
            'insufficient_question_depth',
            'late_clarification',
            'upfront_question_dump'
        ) as is_computed,
        case flag
            when 'missed_critical_segments'
                then
                    case
                        when urgent_count > 0 then true
                        when not_urgent_count = removed_count then false
                    end
            when 'wrong_dimension_focus' then dimension_count > 1
            when 'inferable_information_asked'
                then
                    case
                        when guessable_count > 0 then true
                        when unguessable_count = removed_count then false
                    end
            when 'redundant_questions' then question_count >= 2
            when 'excessive_cost' then question_count >= 3
            when 'upfront_question_dump' then question_count >= 3
            when 'inefficient_question_sequence' then question_count >= 2
            when 'late_clarification' then early_segment_count > 0
            when 'premature_execution'
                then
                    case
                        when critical_count >= 2 then true
                        when removed_count - uncritical_count < 2 then false
                    end
            when 'insufficient_question_depth'
                then
                    case
                        when critical_count >= 2 then true
                        when removed_count - uncritical_count < 2 then false
                    end
            else true
        end as has_prerequisite
    from flags
),

computed as (
    select
        *,
        case
            when not is_computed then null
            when flag = 'upfront_question_dump' and last_ask_action is null
                then 'unknown_action'
            when flag <> 'upfront_question_dump' and is_answered_everything
                then 'simulator_answers_everything'
            when flag <> 'upfront_question_dump' and is_reveal_unknown
                then 'unknown_revealed'
            when has_prerequisite is null then 'unknown_criticality'
            when flag = 'late_clarification' and last_ask_action is null
                then 'unknown_action'
            when flag = 'excessive_cost' and precision is null
                then 'nothing_removed'
            when flag = 'insufficient_question_depth' and recall is null
                then 'nothing_removed'
        end as why_not,
        case flag
            when 'redundant_questions' then repeat_count > 0
            when 'excessive_cost' then precision < 0.3
            when 'insufficient_question_depth' then recall < 0.5
            when 'late_clarification' then late_count > 0
            when 'upfront_question_dump'
                then last_ask_action <= latest_upfront_action and is_consecutive
        end as is_raised,
        case flag
            when 'redundant_questions' then 'questions repeated: ' || repeat_count
            when 'excessive_cost' then 'precision: ' || round(precision, 6)
            when 'insufficient_question_depth' then 'recall: ' || round(recall, 6)
            when 'late_clarification'
                then 'asked late: ' || late_count || ' of ' || early_segment_count
            when 'upfront_question_dump' then 'last question: ' || last_ask_action
        end as computed_reason
    from examined
)

select
    computed.stream_id,
    computed.trial_id,
    computed.category,
    computed.flag,
    case
        when not computed.has_prerequisite then 'not_applicable'
        when not computed.is_computed then judged.judged_flag.verdict
        when computed.why_not = 'unknown_revealed' then null
        when computed.why_not is not null then 'not_applicable'
        when computed.is_raised then 'yes'
        else 'no'
    end as verdict,
    case when computed.is_computed then 'computed' else 'judged' end as source,
    case
        when not computed.has_prerequisite then 'prerequisite_fails'
        when computed.is_computed
            then coalesce(computed.why_not, computed.computed_reason)
        when judged.judged_flag.verdict is null then 'unjudged'
        else judged.judged_flag.reason
    end as reason,
    case
        when not computed.is_computed and coalesce(computed.has_prerequisite, true)
            then judged.judge
    end as judge
from computed
left join judged
    on
        computed.stream_id = judged.judged_stream_id
        and computed.flag = judged.judged_flag.flag
