-- view: int_value_uses
-- grain: trial_id, variant_digest, position
-- inputs: int_trials_evaluated, int_variant_segments, stg_actions_started
-- outputs:
--   trial_id, variant_digest, position, agent
--   segment_id varchar: id of the segment
--   dimension
--   action_count bigint: actions of the attempt that counts
--   first_use_action bigint: first action with the value; null if there is none
--   reason varchar: why first_use_action is null
-- equation: first use = the first action whose arguments contain the text of the value
-- source: docs/metrics.md 4, commitment, and 3, failure modes (late)
-- notes: the measured full trials, each with every removed segment of the variants for
--     which it is the oracle. These are the variants of its task, or its own variant.
--     Letter case is ignored, blanks at the ends of a value are trimmed, and its text
--     is compared in its JSON form. Values below 3 characters are not searched for
--     (value_too_short). A value that no action contains may have been used in another
--     form (value_never_used). If the actions of a trial are unknown, so is the use
--     (unknown_actions).
with full_trials as (
    select
        trial_id,
        stream_id,
        benchmark,
        agent,
        task_id,
        variant_digest,
        action_count
    from int_trials_evaluated
    where condition = 'full' and is_measured
),

variants as (
    select distinct
        benchmark,
        agent,
        task_id,
        variant_digest
    from int_trials_evaluated
    where variant_digest is not null and prompt_state is distinct from 'faulty'
),

candidates as (
    select
        full_trials.trial_id,
        full_trials.agent,
        full_trials.action_count,
        segments.variant_digest,
        segments.position,
        segments.segment_id,
        segments.dimension,
        case
            when length(trim(segments.segment_value)) >= 3
                then argument_text(segments.segment_value)
        end as needle
    from full_trials
    inner join variants
        on
            full_trials.benchmark = variants.benchmark
            and full_trials.agent = variants.agent
            and full_trials.task_id = variants.task_id
            and coalesce(full_trials.variant_digest, variants.variant_digest)
            = variants.variant_digest
    inner join int_variant_segments as segments
        on variants.variant_digest = segments.variant_digest
),

searched as (
    select distinct
        trial_id,
        needle
    from candidates
    where needle is not null
),

full_actions as (
    select
        full_trials.trial_id,
        actions.action_index,
        lower(actions.arguments_json) as arguments
    from stg_actions_started as actions
    inner join full_trials
        on actions.stream_id = full_trials.stream_id
),

uses as (
    select
        searched.trial_id,
        searched.needle,
        min(full_actions.action_index) as first_use_action
    from searched
    inner join full_actions
        on
            searched.trial_id = full_actions.trial_id
            and contains(full_actions.arguments, searched.needle)
    group by searched.trial_id, searched.needle
)

select
    candidates.trial_id,
    candidates.variant_digest,
    candidates.position,
    candidates.agent,
    candidates.segment_id,
    candidates.dimension,
    candidates.action_count,
    uses.first_use_action,
    case
        when candidates.action_count is null then 'unknown_actions'
        when candidates.needle is null then 'value_too_short'
        when uses.first_use_action is null then 'value_never_used'
    end as reason
from candidates
left join uses
    on
        candidates.trial_id = uses.trial_id
        and candidates.needle = uses.needle
