-- view: int_question_facts
-- grain: stream_id
-- inputs: ambiguity_classes, int_question_ledger, int_question_targets,
--     int_questions_placed, int_trials, int_trials_screened, int_variant_segments,
--     int_variants, stg_actions_started
-- outputs:
--   stream_id, trial_id
--   question_count bigint: questions of the attempt that counts
--   is_answered_everything boolean: the simulator gives everything, whatever the
--       question is
--   is_reveal_unknown boolean: it is unknown what an answer revealed
--   precision double: share of the questions that target a removed segment, 0 to 1
--   recall double: share of the removed segments asked for, 0 to 1
--   dimension_count bigint: different dimensions of the removed segments
--   removed_count bigint: segments that the agent did not see; null if unknown
--   critical_count bigint: removed segments of criticality 0.5 or more
--   uncritical_count bigint: removed segments of lower criticality
--   urgent_count bigint: critical segments of guessability 0.5 or less
--   not_urgent_count bigint: removed segments known not to be urgent
--   guessable_count bigint: removed segments of guessability 0.5 or more
--   unguessable_count bigint: removed segments of lower guessability
--   repeat_count bigint: questions that target an already revealed segment
--   early_segment_count bigint: removed segments that full trials use early
--   late_count bigint: early-used segments first asked for after that use
--   last_ask_action bigint: action of the last question; null if the action of a
--       question is unknown
--   latest_upfront_action bigint: last action that still counts as upfront
--   is_consecutive boolean: no other action between the questions
-- equation: repeat = an earlier answer revealed the segment; late = 100 * action /
--     actions of the trial > 100 * first use / actions of the full trial; upfront =
--     up to action max(3, ceil(0.1 * actions))
-- source: docs/metrics.md 3, failure modes [LHAW appendix J.1]
-- notes: the valid trials with questions. A segment whose score is unknown is in
--     neither of the two counts for that score. A full trial first uses a value in the
--     first action whose arguments contain the argument_text of the value, if this text
--     has 3 or more characters. The first use is the earliest in all full trials of the
--     task, by any agent, as a share of the trial's actions.
with trials as (
    select
        ledger.stream_id,
        ledger.trial_id,
        ledger.variant_digest,
        ledger.question_count,
        coalesce(ledger.user_simulator = 'dump', false) as is_answered_everything,
        ledger.reason = 'unknown_revealed' as is_reveal_unknown,
        ledger.removed_count,
        ledger.precision,
        ledger.recall,
        measured.action_count,
        case
            when ledger.removed_count > 0 then int_variants.segments
            when ledger.removed_count = 0 then []
        end as segments
    from int_question_ledger as ledger
    inner join int_trials as measured
        on ledger.trial_id = measured.trial_id
    left join int_variants
        on ledger.variant_digest = int_variants.variant_digest
    where ledger.question_count > 0
),

earlier as (
    select
        stream_id,
        question_id,
        is_requested,
        sequence
        > min(sequence) filter (where is_given) over (
            partition by stream_id, segment_id
        ) as is_repeated
    from int_question_targets
),

repeats as (
    select
        stream_id,
        count(distinct question_id) as repeat_count
    from earlier
    where is_repeated and is_requested
    group by stream_id
),

first_asks as (
    select
        stream_id,
        segment_id,
        min(action_index) as action_index
    from int_question_targets
    where is_requested
    group by stream_id, segment_id
),

wanted as (
    select distinct
        versions.task_digest,
        segments.variant_digest,
        segments.segment_id,
        argument_text(segments.segment_value) as needle
    from int_variant_segments as segments
    inner join int_trials as versions
        on segments.variant_digest = versions.variant_digest
    where
        length(trim(segments.segment_value)) >= 3
        and segments.variant_digest in (
            select trials.variant_digest
            from trials
            where trials.removed_count > 0
        )
),

needles as (
    select distinct
        task_digest,
        needle
    from wanted
),

oracles as (
    select
        measured.stream_id,
        measured.task_digest,
        measured.action_count
    from int_trials as measured
    inner join int_trials_screened as screened
        on measured.trial_id = screened.trial_id
    left join ambiguity_classes
        on measured.variant_digest = ambiguity_classes.variant_digest
    where
        measured.condition = 'full'
        and measured.trial_state = 'valid'
        and screened.exclusion is null
        and ambiguity_classes.ambiguity_class is distinct from 'new_task'
        and measured.task_digest in (select needles.task_digest from needles)
),

actions as (
    select
        stream_id,
        action_index,
        lower(arguments_json) as arguments
    from stg_actions_started
    where stream_id in (select oracles.stream_id from oracles)
),

uses as (
    select
        needles.task_digest,
        needles.needle,
        min(actions.action_index / oracles.action_count) as first_use_share
    from oracles
    inner join needles on oracles.task_digest = needles.task_digest
    inner join actions
        on
            oracles.stream_id = actions.stream_id
            and contains(actions.arguments, needles.needle)
    group by needles.task_digest, needles.needle
),

first_uses as (
    select
        wanted.variant_digest,
        wanted.segment_id,
        min(uses.first_use_share) as first_use_share
    from wanted
    inner join uses
        on
            wanted.task_digest = uses.task_digest
            and wanted.needle = uses.needle
    group by wanted.variant_digest, wanted.segment_id
),

timed as (
    select
        trials.stream_id,
        count(*) as early_segment_count,
        count(*) filter (
            where
            first_asks.action_index / nullif(trials.action_count, 0)
            > first_uses.first_use_share
        ) as late_count
    from trials
    inner join first_uses
        on trials.variant_digest = first_uses.variant_digest
    left join first_asks
        on
            trials.stream_id = first_asks.stream_id
            and first_uses.segment_id = first_asks.segment_id
    where first_uses.first_use_share <= 0.5 and len(trials.segments) > 0
    group by trials.stream_id
),

places as (
    select
        stream_id,
        count(*) = count(action_index) as is_known,
        max(action_index) as last_ask_action,
        max(action_index) - min(action_index) + 1 = count(distinct action_index)
            as is_consecutive
    from int_questions_placed
    group by stream_id
)

select
    trials.stream_id,
    trials.trial_id,
    trials.question_count,
    trials.is_answered_everything,
    coalesce(trials.is_reveal_unknown, false) as is_reveal_unknown,
    trials.precision,
    trials.recall,
    len(
        list_distinct(list_transform(trials.segments, lambda s: s.dimension))
    ) as dimension_count,
    trials.removed_count,
    len(list_filter(trials.segments, lambda s: s.criticality >= 0.5))
        as critical_count,
    len(list_filter(trials.segments, lambda s: s.criticality < 0.5))
        as uncritical_count,
    len(
        list_filter(
            trials.segments,
            lambda s: s.criticality >= 0.5 and s.guessability <= 0.5
        )
    ) as urgent_count,
    len(
        list_filter(
            trials.segments,
            lambda s: s.criticality < 0.5 or s.guessability > 0.5
        )
    ) as not_urgent_count,
    len(list_filter(trials.segments, lambda s: s.guessability >= 0.5))
        as guessable_count,
    len(list_filter(trials.segments, lambda s: s.guessability < 0.5))
        as unguessable_count,
    coalesce(repeats.repeat_count, 0) as repeat_count,
    coalesce(timed.early_segment_count, 0) as early_segment_count,
    coalesce(timed.late_count, 0) as late_count,
    case when places.is_known then places.last_ask_action end as last_ask_action,
    greatest(3, ceil(trials.action_count / 10))::bigint as latest_upfront_action,
    places.is_consecutive
from trials
inner join places on trials.stream_id = places.stream_id
left join repeats on trials.stream_id = repeats.stream_id
left join timed on trials.stream_id = timed.stream_id
