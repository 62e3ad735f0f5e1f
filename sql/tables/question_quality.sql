-- view: question_quality
-- grain: benchmark, agent, user_simulator, measure
-- inputs: int_agent_arms, int_trials_evaluated, pass_at_k, question_ledger
-- outputs:
--   benchmark, agent
--   medium varchar: how the agent asks: mcp, built_in, prose, none or unknown
--   user_simulator, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing, method, reason
-- equation: precision_micro = questions that target a removed segment / questions;
--     recall_micro = removed segments asked for / removed segments; f1_micro = 2 *
--     precision_micro * recall_micro / (precision_micro + recall_micro); *_macro = mean
--     over variants of the mean over trials; recall_of_all = recall_micro over all
--     trials, even those without a question; met_of_requested = removed segments given
--     on request / removed segments asked for; over all trials, as in HiL-Bench:
--     ask_precision = segments given on request / questions (a question that gets k
--     segments counts k times), ask_recall = segments given on request / removed
--     segments, ask_f1 = 2 * ask_precision * ask_recall / (ask_precision + ask_recall)
--     = 2 * segments given on request / (questions + removed segments)
-- source: docs/metrics.md 3 and 6, question quality (ours); Ask-F1: arXiv 2604.09408
-- notes: a question targets a removed segment if the chosen judge says that it asks for
--     the segment, even if the answer does not give it. The trials are the measured
--     trials of ask_user, and units are variants. Only trials with questions count,
--     except for recall_of_all and ask_*. Under dump every value is null
--     (simulator_answers_everything). A variant is dropped if one of its trials does
--     not show what was revealed, asked or removed (unknown_revealed, unknown_actions,
--     unknown_segments). The bootstrap of f1_micro resamples both of its ratios
--     together. n_missing counts missing ask_user trials under any simulator, because
--     sources do not always name the simulator.
with trials as (
    select
        ledger.benchmark,
        ledger.agent,
        coalesce(ledger.user_simulator, 'unknown') as user_simulator,
        ledger.variant_id,
        ledger.trial_id,
        ledger.question_count,
        ledger.targeting_count,
        ledger.requested_count,
        ledger.met_count,
        ledger.removed_count,
        ledger.precision,
        ledger.recall,
        ledger.f1,
        coalesce(ledger.user_simulator <> 'dump', true) as is_rated,
        case
            when ledger.reason in ('unknown_actions', 'unknown_revealed')
                then ledger.reason
        end as asks_reason,
        case when ledger.removed_count is null then 'unknown_segments' end
            as removed_reason,
        ledger.question_count > 0 as has_questions
    from question_ledger as ledger
    inner join int_trials_evaluated as evaluated
        on ledger.trial_id = evaluated.trial_id
    where ledger.condition = 'ask_user' and evaluated.is_measured
),

summed as (
    select
        benchmark,
        agent,
        user_simulator,
        variant_id,
        bool_and(is_rated) as is_rated,
        min(asks_reason) as asks_reason,
        coalesce(min(asks_reason), min(removed_reason)) as recall_reason,
        count(*) as n_trials,
        count(*) filter (where has_questions) as n_asking_trials,
        sum(question_count) as n_questions,
        sum(targeting_count) as n_targeting,
        sum(requested_count) as n_requested,
        sum(met_count) as n_met,
        sum(greatest(question_count, met_count)) as n_sought,
        sum(removed_count) filter (where has_questions) as n_removed_if_asked,
        sum(removed_count) as n_removed,
        list_avg(
            list(precision order by trial_id) filter (where precision is not null)
        ) as precision_mean,
        list_avg(
            list(recall order by trial_id)
            filter (where recall is not null and has_questions)
        ) as recall_mean,
        list_avg(list(f1 order by trial_id) filter (where f1 is not null))
            as f1_mean
    from trials
    group by benchmark, agent, user_simulator, variant_id
),

units as (
    select
        summed.benchmark,
        summed.agent,
        summed.user_simulator,
        summed.is_rated,
        cells.cluster_id,
        unnest(
            [
                {
                    'measure': 'precision_micro',
                    'above': summed.n_targeting::double,
                    'below': summed.n_questions::double,
                    'has_value': summed.n_asking_trials > 0,
                    'unknown': summed.asks_reason,
                    'n_trials': summed.n_asking_trials
                },
                {
                    'measure': 'recall_micro',
                    'above': summed.n_requested::double,
                    'below': summed.n_removed_if_asked::double,
                    'has_value': summed.n_asking_trials > 0,
                    'unknown': summed.recall_reason,
                    'n_trials': summed.n_asking_trials
                },
                {
                    'measure': 'precision_macro',
                    'above': summed.precision_mean,
                    'below': 1.0,
                    'has_value': summed.precision_mean is not null,
                    'unknown': summed.asks_reason,
                    'n_trials': summed.n_asking_trials
                },
                {
                    'measure': 'recall_macro',
                    'above': summed.recall_mean,
                    'below': 1.0,
                    'has_value': summed.recall_mean is not null,
                    'unknown': summed.recall_reason,
                    'n_trials': summed.n_asking_trials
                },
                {
                    'measure': 'f1_macro',
                    'above': summed.f1_mean,
                    'below': 1.0,
                    'has_value': summed.f1_mean is not null,
                    'unknown': summed.recall_reason,
                    'n_trials': summed.n_asking_trials
                },
                {
                    'measure': 'recall_of_all',
                    'above': summed.n_requested::double,
                    'below': summed.n_removed::double,
                    'has_value': true,
                    'unknown': summed.recall_reason,
                    'n_trials': summed.n_trials
                },
                {
                    'measure': 'met_of_requested',
                    'above': summed.n_met::double,
                    'below': summed.n_requested::double,
                    'has_value': summed.n_requested > 0,
                    'unknown': summed.recall_reason,
                    'n_trials': summed.n_asking_trials
                },
                {
                    'measure': 'ask_precision',
                    'above': summed.n_met::double,
                    'below': summed.n_sought::double,
                    'has_value': summed.n_asking_trials > 0,
                    'unknown': summed.asks_reason,
                    'n_trials': summed.n_trials
                },
                {
                    'measure': 'ask_recall',
                    'above': summed.n_met::double,
                    'below': summed.n_removed::double,
                    'has_value': true,
                    'unknown': summed.recall_reason,
                    'n_trials': summed.n_trials
                },
                {
                    'measure': 'ask_f1',
                    'above': 2.0 * summed.n_met,
                    'below': (summed.n_sought + summed.n_removed)::double,
                    'has_value': true,
                    'unknown': summed.recall_reason,
                    'n_trials': summed.n_trials
                }
            ]
        ) as part
    from summed
    inner join pass_at_k as cells
        on
            summed.benchmark = cells.benchmark
            and summed.agent = cells.agent
            and cells.unit_kind = 'variant'
            and summed.variant_id = cells.unit_id
            and cells.condition = 'ask_user'
),

rated as (
    select
        *,
        is_rated and part.has_value and part.unknown is null as has_value
    from units
),

estimated as (
    select
        benchmark,
        agent,
        user_simulator,
        part.measure,
        unit_estimate(
            measure_kind(part.measure),
            case when has_value then part.above end,
            part.below,
            case
                when bool_and(is_rated)
                    then coalesce(min(part.unknown), 'nobody_asked')
                else 'simulator_answers_everything'
            end,
            cluster_id
        ) as estimate,
        coalesce(sum(part.n_trials) filter (where has_value), 0)::bigint as n_trials
    from rated
    group by benchmark, agent, user_simulator, part.measure
),

balanced as (
    select
        benchmark,
        agent,
        user_simulator,
        f1_estimate(
            list(
                {
                    'cluster': hash(cluster_id),
                    'is_hit': (part.measure = 'precision_micro')::integer::double,
                    'above': part.above::double,
                    'below': part.below::double
                }
            )
        ) as f1
    from rated
    where has_value and part.measure in ('precision_micro', 'recall_micro')
    group by benchmark, agent, user_simulator
),

harmonic as (
    select
        hits.benchmark,
        hits.agent,
        hits.user_simulator,
        'f1_micro' as measure,
        struct_update(
            coalesce(balanced.f1, hits.estimate),
            n_units := hits.estimate.n_units,
            n_dropped := hits.estimate.n_dropped,
            value := case
                when
                    hits.estimate.value is not null
                    and found.estimate.value is not null
                    then balanced.f1.value
            end,
            reason := case
                when hits.estimate.value is null then hits.estimate.reason
                when found.estimate.value is null then found.estimate.reason
                else balanced.f1.reason
            end
        ) as estimate,
        hits.n_trials
    from estimated as hits
    inner join estimated as found
        on
            hits.benchmark = found.benchmark
            and hits.agent = found.agent
            and hits.user_simulator = found.user_simulator
    left join balanced
        on
            hits.benchmark = balanced.benchmark
            and hits.agent = balanced.agent
            and hits.user_simulator = balanced.user_simulator
    where
        hits.measure = 'precision_micro' and found.measure = 'recall_micro'
),

missing as (
    select
        benchmark,
        agent,
        sum(n_missing)::bigint as n_missing
    from pass_at_k
    where unit_kind = 'variant' and condition = 'ask_user'
    group by benchmark, agent
),

united as (
    select
        benchmark,
        agent,
        user_simulator,
        measure,
        estimate,
        n_trials
    from estimated
    union all
    select
        benchmark,
        agent,
        user_simulator,
        measure,
        estimate,
        n_trials
    from harmonic
)

select
    united.benchmark,
    united.agent,
    arms.medium,
    united.user_simulator,
    united.measure,
    united.estimate.value,
    united.estimate.low,
    united.estimate.high,
    united.estimate.n_units,
    united.estimate.n_dropped,
    united.estimate.n_clusters,
    united.n_trials,
    missing.n_missing,
    united.estimate.method,
    united.estimate.reason
from united
inner join missing
    on
        united.benchmark = missing.benchmark
        and united.agent = missing.agent
left join int_agent_arms as arms
    on united.benchmark = arms.benchmark and united.agent = arms.agent
