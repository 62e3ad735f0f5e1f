-- view: int_ask_estimates
-- grain: benchmark, agent, measure
-- inputs: pass_at_k
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   measure varchar: what is measured
--   estimate struct: value, low, high, n_units, n_dropped, method, reason
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
-- equation: ask_pct = 100 * trials that asked / trials; ask_variant_pct = 100 *
--     variants where a trial asked / variants; questions_per_asking_trial = questions /
--     trials that asked
-- source: docs/metrics.md 3, Ask % and questions per asking trial
-- notes: valid trials of ask_user. Nobody asked: questions_per_asking_trial is null. A
--     variant with a trial of which nobody knows whether it asked is dropped
--     (unknown_actions).
with units as (
    select
        benchmark,
        agent,
        unit_id,
        cluster_index,
        cluster_count,
        n_missing,
        case when n_questions is not null then nullif(n_trials, 0) end as n_trials,
        case when n_trials > 0 then n_asking_trials end as n_asking_trials,
        case when n_trials > 0 then n_questions end as n_questions,
        case when n_trials > 0 then 100 * (n_asking_trials > 0)::integer end
            as variant_asked_pct,
        case
            when n_trials = 0 then 'no_valid_trials'
            when n_questions is null then 'unknown_actions'
        end as reason
    from pass_at_k
    where unit_kind = 'variant' and condition = 'ask_user'
),

trial_shares as (
    select
        benchmark,
        agent,
        'ask_pct' as measure,
        ratio_estimate(
            100 * n_asking_trials,
            n_trials,
            min(reason),
            cluster_index,
            cluster_count
        ) as estimate,
        coalesce(sum(n_trials), 0)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from units
    group by benchmark, agent
),

variant_shares as (
    select
        benchmark,
        agent,
        'ask_variant_pct' as measure,
        mean_estimate(
            variant_asked_pct, reason, cluster_index, cluster_count, false
        ) as estimate,
        coalesce(sum(n_trials), 0)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from units
    group by benchmark, agent
),

question_ratios as (
    select
        benchmark,
        agent,
        'questions_per_asking_trial' as measure,
        ratio_estimate(
            n_questions,
            n_asking_trials,
            case
                when count(n_trials) = 0 then min(reason)
                else 'nobody_asked'
            end,
            cluster_index,
            cluster_count
        ) as estimate,
        coalesce(sum(n_trials), 0)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from units
    group by benchmark, agent
)

select * from trial_shares
union all
select * from variant_shares
union all
select * from question_ratios
