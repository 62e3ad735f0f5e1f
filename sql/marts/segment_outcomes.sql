-- view: segment_outcomes
-- grain: benchmark, task_id, dimension, segment_value
-- inputs: int_trials, segments
-- outputs:
--   benchmark, task_id, dimension
--   segment_value varchar: what was removed
--   subdimension varchar: open vocabulary
--   criticality double: as it was asserted, 0 to 1; null if unknown
--   guessability double: as it was asserted, 0 to 1; null if unknown
--   missing_trials bigint: trials in which the value was missing
--   missing_successes bigint: of these, trials that succeeded
--   wrong_trials bigint: trials in which the prompt or the workspace gave a wrong value
--   wrong_successes bigint: of these, trials that succeeded
--   lost_trials bigint: trials that are missing
--   measured_criticality double: share of all these trials that failed, 0 to 1; null
--       without trials
--   measured_guessability double: share of trials with the value missing that
--       succeeded, 0 to 1; null without such trials
-- equation: measured_criticality = 1 - (missing_successes + wrong_successes) /
--     (missing_trials + wrong_trials); measured_guessability = missing_successes /
--     missing_trials
-- source: docs/metrics.md 2, measured scores
-- notes: the trials are `underspecified` trials of variants that lack only this
--     segment, by all agents, even classifying ones. With severity decoy or environment
--     the value is wrong, otherwise it is missing. If variants assert different scores,
--     an asserted score is the mean over the trials.
with single as (
    select variant_digest
    from segments
    group by variant_digest
    having count(*) = 1
),

alone as (
    select
        single.variant_digest,
        segments.benchmark,
        segments.task_id,
        segments.dimension,
        segments.segment_value,
        segments.subdimension,
        segments.criticality,
        segments.guessability,
        coalesce(segments.severity in ('decoy', 'environment'), false) as is_wrong
    from segments
    inner join single
        on segments.variant_digest = single.variant_digest
),

counted as (
    select
        alone.benchmark,
        alone.task_id,
        alone.dimension,
        alone.segment_value,
        min(alone.subdimension) as subdimension,
        avg(alone.criticality) as criticality,
        avg(alone.guessability) as guessability,
        count(trials.is_success) filter (where not alone.is_wrong) as missing_trials,
        count(*) filter (where not alone.is_wrong and trials.is_success)
            as missing_successes,
        count(trials.is_success) filter (where alone.is_wrong) as wrong_trials,
        count(*) filter (where alone.is_wrong and trials.is_success)
            as wrong_successes,
        count(*) filter (where trials.trial_state = 'missing') as lost_trials
    from alone
    inner join int_trials as trials
        on
            alone.variant_digest = trials.variant_digest
            and trials.condition = 'underspecified'
            and trials.trial_state in ('valid', 'missing')
    group by
        alone.benchmark, alone.task_id, alone.dimension, alone.segment_value
)

select
    benchmark,
    task_id,
    dimension,
    segment_value,
    subdimension,
    criticality,
    guessability,
    missing_trials,
    missing_successes,
    wrong_trials,
    wrong_successes,
    lost_trials,
    1
    - (missing_successes + wrong_successes)
    / nullif(missing_trials + wrong_trials, 0) as measured_criticality,
    missing_successes / nullif(missing_trials, 0) as measured_guessability
from counted
