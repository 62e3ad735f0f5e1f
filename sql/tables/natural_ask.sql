-- view: natural_ask
-- grain: benchmark, agent, task_id, measure
-- inputs: int_agent_arms, int_attempts, int_trials_evaluated, pass_at_k, questions,
--     stg_actions_started, stg_trials_failed
-- outputs:
--   benchmark, agent
--   medium varchar: how the agent asks: mcp, built_in, prose, none or unknown
--   task_id varchar: id of the task, or all
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing,
--   method, reason
-- equation: ask_pct = 100 * trials that asked / trials; success_pct = 100 * successful
--     trials / trials; over the trials that asked: mean and median of first_ask_pct,
--     and the share of trials with a first_ask_pct from 25 to 50 % (both ends
--     included); over questions with options that ask for a value:
--     options_with_truth_pct = 100 * questions with an option that says such a value /
--     questions; recommended_wrong_pct = 100 * questions whose recommended option says
--     no such value / questions with a recommended option; for sessions also
--     answered_pct = 100 * answered questions / questions; went_on_pct = 100 *
--     questions after which the agent acted again / questions; and the questions by
--     each medium
-- source: docs/metrics.md 1, 4 and 6, natural asking [Ask Early table 5, figure 10]
-- notes: the trials are the valid trials of ask_user, and each trial is a session. The
--     rows with task_id all are about all tasks; the other rows are ask rates per task.
--     Counts have no interval (reason count). If no trial asked, the first-ask rows are
--     null. A first question whose action is unknown is dropped, and so is a trial if
--     it is unknown whether it asked. The measures of options have rows only for agents
--     that offered options. Sessions of people (imported trials with a user and no
--     result) are valid in this table and missing in all others. They have their own
--     benchmark, and all versions of an agent are pooled.
with cells as (
    select
        benchmark,
        agent,
        unit_id,
        task_id,
        cluster_id,
        n_missing,
        n_questions,
        nullif(n_trials, 0) as n_trials,
        case when n_questions is not null then nullif(n_trials, 0) end
            as n_known_trials,
        case
            when n_trials = 0 then 'no_valid_trials'
            when n_questions is null then 'unknown_actions'
        end as reason,
        case when n_trials > 0 then n_asking_trials end as n_asking_trials,
        case when n_trials > 0 then n_success end as n_success
    from pass_at_k
    where unit_kind = 'variant' and condition = 'ask_user'
),

sets as (
    select
        benchmark,
        agent,
        unnest(['all', task_id]) as task_id,
        unit_id,
        cluster_id,
        n_missing,
        n_questions,
        n_trials,
        n_known_trials,
        reason,
        n_asking_trials,
        n_success
    from cells
),

ask_rates as (
    select
        benchmark,
        agent,
        task_id,
        'ask_pct' as measure,
        percent_estimate(
            n_asking_trials, n_trials, min(reason), cluster_id
        ) as estimate,
        coalesce(sum(n_known_trials), 0)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from sets
    group by benchmark, agent, task_id
),

successes as (
    select
        benchmark,
        agent,
        task_id,
        'success_pct' as measure,
        percent_estimate(
            n_success, n_trials, 'no_valid_trials', cluster_id
        ) as estimate,
        coalesce(sum(n_trials), 0)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from sets
    where task_id = 'all'
    group by benchmark, agent, task_id
),

per_trial as (
    select
        benchmark,
        agent,
        case when count(*) = count(question_count) then max(question_count) end
            as most_questions
    from int_trials_evaluated
    where condition = 'ask_user' and is_measured
    group by benchmark, agent
),

totals as (
    select
        sets.benchmark,
        sets.agent,
        any_value(per_trial.most_questions) as most_questions,
        case
            when count(*) = count(sets.n_questions) then sum(sets.n_questions)
        end::bigint as n_questions,
        count(sets.n_trials) as n_units,
        count(*) - count(sets.n_trials) as n_dropped,
        count(distinct sets.cluster_id) filter (
            where sets.n_trials is not null
        ) as n_clusters,
        coalesce(sum(sets.n_trials), 0)::bigint as n_trials,
        sum(sets.n_missing)::bigint as n_missing
    from sets
    left join per_trial
        on sets.benchmark = per_trial.benchmark and sets.agent = per_trial.agent
    where sets.task_id = 'all'
    group by sets.benchmark, sets.agent
),

counts as (
    select
        benchmark,
        agent,
        'all' as task_id,
        unnest(
            [
                { 'measure': 'questions', 'n': n_questions },
                { 'measure': 'most_questions_per_trial', 'n': most_questions }
            ]
        ) as counted,
        n_units,
        n_dropped,
        n_clusters,
        n_trials,
        n_missing
    from totals
),

asking as (
    select
        asked.benchmark,
        asked.agent,
        asked.variant_id,
        asked.trial_id,
        asked.stream_id,
        asked.first_ask_pct,
        cells.cluster_id
    from int_trials_evaluated as asked
    inner join pass_at_k as cells
        on
            asked.benchmark = cells.benchmark
            and asked.agent = cells.agent
            and asked.variant_id = cells.unit_id
            and asked.condition = cells.condition
            and cells.unit_kind = 'variant'
    where
        asked.condition = 'ask_user'
        and asked.is_measured
        and (asked.question_count > 0 or asked.question_count is null)
),

placed_asks as (
    select
        benchmark,
        agent,
        count(first_ask_pct) as n_trials,
        percent_estimate(
            first_ask_pct / 100, 1, 'unknown_action', cluster_id
        ) as mean_pct,
        median_estimate(first_ask_pct, 'unknown_action', cluster_id) as median_pct,
        percent_estimate(
            (first_ask_pct between 25 and 50)::integer,
            1,
            'unknown_action',
            cluster_id
        ) as window_pct,
        count(distinct variant_id) filter (where first_ask_pct is not null)
            as n_variants
    from asking
    group by benchmark, agent
),

first_asks as (
    select
        totals.benchmark,
        totals.agent,
        'all' as task_id,
        unnest(
            [
                {
                    'measure': 'first_ask_mean_pct',
                    'estimate': placed_asks.mean_pct
                },
                {
                    'measure': 'first_ask_median_pct',
                    'estimate': placed_asks.median_pct
                },
                {
                    'measure': 'first_asks_25_to_50_pct',
                    'estimate': placed_asks.window_pct
                }
            ]
        ) as measured,
        coalesce(placed_asks.n_variants, 0) as n_units,
        coalesce(placed_asks.n_trials, 0) as n_trials,
        totals.n_missing,
        case when totals.n_trials = 0 then 'no_valid_trials' else 'nobody_asked' end
            as reason
    from totals
    left join placed_asks
        on
            totals.benchmark = placed_asks.benchmark
            and totals.agent = placed_asks.agent
),

offers as (
    select
        asking.benchmark,
        asking.agent,
        asking.variant_id,
        asking.trial_id,
        asking.cluster_id,
        unnest(
            [
                {
                    'measure': 'options_with_truth_pct',
                    'is_so': questions.is_truth_offered
                },
                {
                    'measure': 'recommended_wrong_pct',
                    'is_so': questions.is_recommended_wrong
                }
            ]
        ) as offer
    from asking
    inner join questions on asking.stream_id = questions.stream_id
),

offered as (
    select
        offers.benchmark,
        offers.agent,
        offers.offer.measure,
        percent_estimate(
            offers.offer.is_so::integer, 1, 'nobody_asked', offers.cluster_id
        ) as estimate,
        count(distinct offers.variant_id) as n_variants,
        count(distinct offers.trial_id) as n_trials,
        any_value(totals.n_missing) as n_missing
    from offers
    inner join totals
        on
            offers.benchmark = totals.benchmark
            and offers.agent = totals.agent
    where offers.offer.is_so is not null
    group by offers.benchmark, offers.agent, offers.offer.measure
),

sessions as (
    select
        attempts.stream_id,
        attempts.benchmark,
        attempts.task_id,
        attempts.agent_name as agent
    from int_attempts as attempts
    inner join stg_trials_failed as failed
        on attempts.stream_id = failed.stream_id
    where
        failed.error_kind = 'no_reward'
        and attempts.channel = 'ask_user'
        and attempts.is_imported
        and attempts.benchmark not in (select cells.benchmark from cells)
),

session_actions as (
    select
        stream_id,
        max(action_index) as last_action
    from stg_actions_started
    group by stream_id
),

session_questions as (
    select
        sessions.stream_id,
        sessions.benchmark,
        sessions.agent,
        sessions.task_id,
        questions.medium,
        questions.timing_pct,
        questions.response_state = 'answered' as is_answered,
        questions.action_index < session_actions.last_action as is_followed
    from sessions
    inner join questions on sessions.stream_id = questions.stream_id
    left join session_actions
        on sessions.stream_id = session_actions.stream_id
),

session_asks as (
    select
        sessions.stream_id,
        sessions.benchmark,
        sessions.agent,
        sessions.task_id,
        count(asked.medium) as question_count,
        min(asked.timing_pct) as first_ask_pct
    from sessions
    left join session_questions as asked
        on sessions.stream_id = asked.stream_id and sessions.agent = asked.agent
    group by
        sessions.stream_id, sessions.benchmark, sessions.agent, sessions.task_id
),

asked_shares as (
    select
        benchmark,
        agent,
        percent_estimate(is_answered::integer, 1, 'nobody_asked', task_id)
            as answered,
        percent_estimate(is_followed::integer, 1, 'nobody_asked', task_id)
            as followed
    from session_questions
    group by benchmark, agent
),

session_shares as (
    select
        asks.benchmark,
        asks.agent,
        count(*) as n_trials,
        sum(asks.question_count)::bigint as n_questions,
        max(asks.question_count)::bigint as most_questions,
        count(distinct asks.task_id) as n_units,
        percent_estimate(
            (asks.question_count > 0)::integer, 1, 'no_valid_trials', asks.task_id
        ) as ask,
        percent_estimate(
            asks.first_ask_pct / 100, 1, 'nobody_asked', asks.task_id
        ) as first_mean,
        median_estimate(asks.first_ask_pct, 'nobody_asked', asks.task_id)
            as first_median,
        any_value(asked_shares.answered) as answered,
        any_value(asked_shares.followed) as followed
    from session_asks as asks
    left join asked_shares
        on
            asks.benchmark = asked_shares.benchmark
            and asks.agent = asked_shares.agent
    group by asks.benchmark, asks.agent
),

session_measures as (
    select
        benchmark,
        agent,
        n_trials,
        unnest(
            [
                { 'measure': 'ask_pct', 'estimate': ask },
                { 'measure': 'first_ask_mean_pct', 'estimate': first_mean },
                { 'measure': 'first_ask_median_pct', 'estimate': first_median },
                { 'measure': 'answered_pct', 'estimate': answered },
                { 'measure': 'went_on_pct', 'estimate': followed }
            ]
        ) as measured
    from session_shares
),

session_counts as (
    select
        benchmark,
        agent,
        n_units,
        n_trials,
        unnest(
            [
                { 'measure': 'questions', 'n': n_questions },
                { 'measure': 'most_questions_per_trial', 'n': most_questions }
            ]
        ) as counted
    from session_shares
    union all
    select
        asked.benchmark,
        asked.agent,
        any_value(shares.n_units) as n_units,
        any_value(shares.n_trials) as n_trials,
        { 'measure': 'questions_by_' || asked.medium, 'n': count(*) } as counted
    from session_questions as asked
    inner join session_shares as shares
        on asked.benchmark = shares.benchmark and asked.agent = shares.agent
    group by asked.benchmark, asked.agent, asked.medium
),

united as (
    select
        benchmark,
        agent,
        'all' as task_id,
        measured.measure,
        measured.estimate.value,
        measured.estimate.low,
        measured.estimate.high,
        coalesce(measured.estimate.n_units, 0) as n_units,
        coalesce(measured.estimate.n_dropped, 0) as n_dropped,
        coalesce(measured.estimate.n_clusters, 0) as n_clusters,
        n_trials,
        0::bigint as n_missing,
        measured.estimate.method,
        case
            when measured.estimate is null then 'nobody_asked'
            else measured.estimate.reason
        end
            as reason
    from session_measures
    union all
    select
        benchmark,
        agent,
        'all' as task_id,
        counted.measure,
        counted.n::double,
        null as low,
        null as high,
        n_units,
        0 as n_dropped,
        n_units as n_clusters,
        n_trials,
        0::bigint as n_missing,
        null as method,
        'count' as reason
    from session_counts
    union all
    select
        benchmark,
        agent,
        task_id,
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
        estimate.reason
    from ask_rates
    union all
    select
        benchmark,
        agent,
        task_id,
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
        estimate.reason
    from successes
    union all
    select
        benchmark,
        agent,
        task_id,
        counted.measure,
        counted.n::double,
        null as low,
        null as high,
        n_units,
        n_dropped,
        n_clusters,
        n_trials,
        n_missing,
        null as method,
        case
            when counted.n is not null then 'count'
            when n_trials = 0 then 'no_valid_trials'
            else 'unknown_actions'
        end as reason
    from counts
    union all
    select
        benchmark,
        agent,
        task_id,
        measured.measure,
        measured.estimate.value,
        measured.estimate.low,
        measured.estimate.high,
        n_units,
        coalesce(measured.estimate.n_dropped, 0) as n_dropped,
        coalesce(measured.estimate.n_clusters, 0) as n_clusters,
        n_trials,
        n_missing,
        measured.estimate.method,
        case
            when measured.estimate is null then reason
            else measured.estimate.reason
        end as reason
    from first_asks
    union all
    select
        benchmark,
        agent,
        'all' as task_id,
        measure,
        estimate.value,
        estimate.low,
        estimate.high,
        n_variants as n_units,
        0 as n_dropped,
        estimate.n_clusters,
        n_trials,
        n_missing,
        estimate.method,
        estimate.reason
    from offered
)

select
    united.benchmark,
    united.agent,
    arms.medium,
    united.task_id,
    united.measure,
    united.value,
    united.low,
    united.high,
    united.n_units,
    united.n_dropped,
    united.n_clusters,
    united.n_trials,
    united.n_missing,
    united.method,
    united.reason
from united
left join int_agent_arms as arms
    on united.benchmark = arms.benchmark and united.agent = arms.agent
