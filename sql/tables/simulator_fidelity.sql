-- view: simulator_fidelity
-- grain: benchmark, user_simulator, judge, other_judge, measure
-- inputs: int_attempts, int_exchange_readings, int_task_clusters, int_trials_evaluated,
--     int_variant_segments, questions, stg_trials_failed
-- outputs:
--   benchmark, user_simulator
--   judge varchar: the first of two judges by name; null for values of the chosen judge
--   other_judge varchar: the second of the two judges
--   measure
--   value double: the mean, ratio or coefficient
--   low, high
--   n_units bigint: trials with a value; for two judges, exchanges or their segments
--   n_dropped bigint: trials without a value
--   n_clusters, n_trials
--   n_missing bigint: attempts that failed because the simulated user gave no answer
--   method, reason
--   n_questions bigint: questions in the trials behind the value
-- equation: met_requests_pct = 100 * segments revealed on request / (segments revealed
--     on request + segments asked for and withheld); volunteering_pct = 100 * answers
--     that reveal a segment that was not asked for / answers; leaking_pct = 100 *
--     answers with the verdict leaked / answers; uninformative_pct = 100 * answers that
--     reveal nothing / answers; asked_again_pct = 100 * answers whose model was asked
--     again after a reply that did not pass the checks / answers; echoing_pct = the
--     same for replies that only repeat the question. For two judges:
--     asking_agreement_pct = 100 * removed segments about which both agree whether the
--     question asks for them / removed segments of all exchanges that both read;
--     giving_agreement_pct: the same for what the answer gives; right_agreement_pct:
--     the same for exchanges and the verdict right; kappa = 1 - share of different
--     decisions / share of different decisions by chance (Cohen's)
-- source: docs/metrics.md 6, simulator fidelity (ours)
-- notes: the trials are measured trials of conditions with a user that have answers,
--     except faulty requests. All agents are pooled. Units are trials, and clusters are
--     tasks. The judge that `exchange_judge` chooses decides whether a segment was
--     asked for and given. A trial is dropped if it is unknown what was revealed or
--     withheld (unknown_revealed), if no removed segment was asked for
--     (nothing_requested), or if the simulated user failed (simulator_failed). A kappa
--     is null if both judges always made the same single decision (no_variation).
with trials as (
    select distinct
        evaluated.benchmark,
        coalesce(started.user_simulator, 'unknown') as user_simulator,
        evaluated.stream_id,
        evaluated.task_id,
        evaluated.variant_digest
    from int_trials_evaluated as evaluated
    inner join int_attempts as started
        on evaluated.stream_id = started.stream_id
    where
        evaluated.channel = 'ask_user'
        and evaluated.is_measured
        and evaluated.prompt_state is distinct from 'faulty'
),

failures as (
    select
        started.benchmark,
        coalesce(started.user_simulator, 'unknown') as user_simulator,
        started.stream_id,
        started.task_id
    from stg_trials_failed as failed
    inner join int_attempts as started
        on failed.stream_id = started.stream_id
    where
        failed.boundary = 'user_simulator'
        and started.prompt_state is distinct from 'faulty'
),

answered as (
    select
        stream_id,
        count(*) as n_questions,
        count(*) filter (where requested_segment_ids is null) > 0 as is_unknown,
        count(*) filter (where withheld_segment_ids is null) > 0 as is_withheld_unknown,
        sum(len(requested_segment_ids)) as n_met,
        sum(len(withheld_segment_ids)) as n_withheld,
        count(*) filter (where len(volunteered_segment_ids) > 0) as n_volunteering,
        count(*) filter (where verdict = 'leaked') as n_leaking,
        count(*) filter (
            where len(requested_segment_ids) + len(volunteered_segment_ids) = 0
        ) as n_uninformative,
        count(*) filter (where len(rejected_problems) > 0) as n_asked_again,
        count(*) filter (where list_contains(rejected_problems, 'echo')) as n_echoing
    from questions
    where answer is not null
    group by stream_id
),

units as (
    select
        trials.benchmark,
        trials.user_simulator,
        trials.task_id,
        true as is_valid,
        answered.n_questions,
        unnest(
            [
                {
                    'measure': 'met_requests_pct',
                    'above': answered.n_met,
                    'below': answered.n_met + answered.n_withheld,
                    'reason': case
                        when answered.is_unknown or answered.is_withheld_unknown
                            then 'unknown_revealed'
                        when answered.n_met + answered.n_withheld = 0
                            then 'nothing_requested'
                    end
                },
                {
                    'measure': 'volunteering_pct',
                    'above': answered.n_volunteering,
                    'below': answered.n_questions,
                    'reason': case when answered.is_unknown then 'unknown_revealed' end
                },
                {
                    'measure': 'leaking_pct',
                    'above': answered.n_leaking,
                    'below': answered.n_questions,
                    'reason': case when answered.is_unknown then 'unknown_revealed' end
                },
                {
                    'measure': 'uninformative_pct',
                    'above': answered.n_uninformative,
                    'below': answered.n_questions,
                    'reason': case when answered.is_unknown then 'unknown_revealed' end
                },
                {
                    'measure': 'asked_again_pct',
                    'above': answered.n_asked_again,
                    'below': answered.n_questions,
                    'reason': null
                },
                {
                    'measure': 'echoing_pct',
                    'above': answered.n_echoing,
                    'below': answered.n_questions,
                    'reason': null
                }
            ]
        ) as part
    from trials
    inner join answered on trials.stream_id = answered.stream_id
    union all
    select
        benchmark,
        user_simulator,
        task_id,
        false as is_valid,
        0 as n_questions,
        {
            'measure': unnest([
                'met_requests_pct',
                'volunteering_pct',
                'leaking_pct',
                'uninformative_pct',
                'asked_again_pct',
                'echoing_pct'
            ]),
            'above': null,
            'below': null,
            'reason': 'simulator_failed'
        } as part
    from failures
),

estimated as (
    select
        units.benchmark,
        units.user_simulator,
        units.part.measure,
        percent_estimate(
            case when units.part.reason is null then units.part.above end,
            units.part.below,
            coalesce(min(units.part.reason), 'no_units'),
            clusters.cluster_id
        ) as estimate,
        count(*) filter (where units.part.reason is null) as n_trials,
        count(*) filter (where not units.is_valid) as n_missing,
        coalesce(
            sum(units.n_questions) filter (where units.part.reason is null), 0
        )::bigint as n_questions
    from units
    inner join int_task_clusters as clusters
        on
            units.benchmark = clusters.benchmark
            and units.task_id = clusters.task_id
    group by units.benchmark, units.user_simulator, units.part.measure
),

pairs as (
    select
        trials.benchmark,
        trials.user_simulator,
        trials.variant_digest,
        clusters.cluster_id,
        ones.judge,
        others.judge as other_judge,
        ones.stream_id,
        ones.question_id,
        ones.asks_for,
        others.asks_for as other_asks_for,
        ones.gives,
        others.gives as other_gives,
        ones.verdict = 'right' as is_right,
        others.verdict = 'right' as is_other_right
    from int_exchange_readings as ones
    inner join int_exchange_readings as others
        on
            ones.stream_id = others.stream_id
            and ones.question_id = others.question_id
            and ones.judge < others.judge
    inner join trials on ones.stream_id = trials.stream_id
    inner join int_task_clusters as clusters
        on
            trials.benchmark = clusters.benchmark
            and trials.task_id = clusters.task_id
),

removed as (
    select
        variant_digest,
        list(segment_id order by position) as segment_ids
    from int_variant_segments
    group by variant_digest
),

joined as (
    select
        pairs.*,
        coalesce(removed.segment_ids, []) as segment_ids
    from pairs
    left join removed on pairs.variant_digest = removed.variant_digest
),

decided as (
    select
        *,
        unnest(
            list_transform(
                segment_ids,
                lambda id: {
                    'fact': 'asking',
                    'one': list_contains(asks_for, id),
                    'other': list_contains(other_asks_for, id)
                }
            )
            || list_transform(
                segment_ids,
                lambda id: {
                    'fact': 'giving',
                    'one': list_contains(gives, id),
                    'other': list_contains(other_gives, id)
                }
            )
            || [{ 'fact': 'right', 'one': is_right, 'other': is_other_right }]
        ) as decision
    from joined
),

compared as (
    select
        benchmark,
        user_simulator,
        judge,
        other_judge,
        decision.fact,
        percent_estimate(
            (decision.one = decision.other)::integer, 1, 'no_units', cluster_id
        ) as agreement,
        kappa_estimate(
            list(
                {
                    'cluster': hash(cluster_id),
                    'one': decision.one::integer::double,
                    'other': decision.other::integer::double
                }
            )
        ) as kappa,
        count(distinct stream_id) as n_trials,
        count(distinct hash(stream_id, question_id)) as n_questions
    from decided
    group by benchmark, user_simulator, judge, other_judge, decision.fact
),

united as (
    select
        benchmark,
        user_simulator,
        null::varchar as judge,
        null::varchar as other_judge,
        measure,
        estimate,
        n_trials,
        n_missing,
        n_questions
    from estimated
    union all
    select
        benchmark,
        user_simulator,
        judge,
        other_judge,
        unnest([fact || '_agreement_pct', fact || '_kappa']) as measure,
        unnest([agreement, kappa]) as estimate,
        n_trials,
        0 as n_missing,
        n_questions
    from compared
)

select
    benchmark,
    user_simulator,
    judge,
    other_judge,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason,
    n_questions
from united
