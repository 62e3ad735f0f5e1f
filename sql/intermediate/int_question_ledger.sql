-- view: int_question_ledger
-- grain: trial_id
-- inputs: int_question_targets, int_trials, int_variants
-- outputs:
--   trial_id, stream_id, benchmark, agent, variant_id, variant_digest, condition,
--   user_simulator
--   question_count bigint: questions of the attempt that counts; null if unknown
--   targeting_count, removed_count, requested_count
--   met_count bigint: removed segments given on request; null if unknown
--   volunteered_count, precision, recall, f1, reason
-- equation: precision = targeting questions / questions; recall = segments asked for /
--     removed segments; f1 = 2 * precision * recall / (precision + recall), 0 if both
--     are 0
-- source: docs/metrics.md 3, question quality
-- notes: the valid trials that could ask. A question targets a segment if the chosen
--     judge says that it asks for the segment, even if the answer does not give it.
--     Precision and f1 are null if there was no question, recall and f1 if nothing was
--     removed. All three are null under the simulator dump
--     (simulator_answers_everything), if it is unknown what an answer revealed
--     (unknown_revealed), or if it is unknown whether there was a question
--     (unknown_actions). Recall is null if it is unknown what was removed
--     (unknown_segments). Volunteered segments were given and never asked for.
with targets as (
    select
        stream_id,
        count(distinct question_id) filter (where is_requested) as targeting_count,
        count(distinct segment_id) filter (where is_requested) as requested_count,
        count(distinct segment_id) filter (where is_requested and is_given)
            as met_count,
        count(distinct segment_id) as touched_count,
        bool_or(segment_id is null) as has_unknown
    from int_question_targets
    group by stream_id
),

counted as (
    select
        trials.trial_id,
        trials.stream_id,
        trials.benchmark,
        trials.agent,
        trials.variant_id,
        trials.variant_digest,
        trials.condition,
        trials.user_simulator,
        trials.question_count,
        case
            when trials.prompt_state = 'underspecified'
                then nullif(len(int_variants.segments), 0)
            when trials.prompt_state in ('control', 'faulty')
                then len(int_variants.segments)
            else 0
        end as removed_count,
        coalesce(targets.targeting_count, 0) as targeting_count,
        coalesce(targets.requested_count, 0) as requested_count,
        coalesce(targets.met_count, 0) as met_count,
        coalesce(targets.touched_count - targets.requested_count, 0)
            as volunteered_count,
        case
            when trials.question_count is null then 'unknown_actions'
            when targets.has_unknown then 'unknown_revealed'
        end as unknown_reason
    from int_trials as trials
    left join int_variants
        on trials.variant_digest = int_variants.variant_digest
    left join targets
        on trials.stream_id = targets.stream_id
    where trials.trial_state = 'valid' and trials.channel = 'ask_user'
),

known as (
    select
        * replace (
            case when unknown_reason is null then targeting_count end
                as targeting_count,
            case when unknown_reason is null then requested_count end
                as requested_count,
            case when unknown_reason is null then met_count end as met_count,
            case when unknown_reason is null then volunteered_count end
                as volunteered_count
        )
    from counted
),

rated as (
    select
        *,
        case
            when user_simulator = 'dump' then 'simulator_answers_everything'
            when unknown_reason is not null then unknown_reason
            when question_count = 0 then 'nobody_asked'
            when removed_count is null then 'unknown_segments'
            when removed_count = 0 then 'nothing_removed'
        end as reason,
        case
            when coalesce(user_simulator <> 'dump', true)
                then targeting_count / nullif(question_count, 0)
        end as precision,
        case
            when coalesce(user_simulator <> 'dump', true)
                then requested_count / nullif(removed_count, 0)
        end as recall
    from known
)

select
    trial_id,
    stream_id,
    benchmark,
    agent,
    variant_id,
    variant_digest,
    condition,
    user_simulator,
    question_count,
    targeting_count,
    removed_count,
    requested_count,
    met_count,
    volunteered_count,
    precision,
    recall,
    case
        when precision + recall = 0 then 0.0
        else 2 * precision * recall / (precision + recall)
    end as f1,
    reason
from rated
