-- view: int_question_gains
-- grain: benchmark, agent, measure
-- inputs:
-- outputs:
-- equation: with g the gain in percentage points and q the questions of the ask arm of a
--     paired variant: per question per variant = sum(g) / sum(q);
--     per question = mean(g) / sum(q) = the former / number of variants
-- source: METRICS 3, gain per question; FACTS B2.10 and B2.11
-- notes: both over the same paired variants; no questions give null (nobody_asked). The
--     per-question interval takes the number of variants as given. It shrinks with the
--     size of the set: never compare it across sets.
with paired as (
    select
        benchmark,
        agent,
        measure,
        variant_id,
        cluster_index,
        cluster_count,
        100 * gain as gain_pp,
        case when gain is not null then n_questions end as n_questions,
        case when gain is not null then n_trials end as n_trials,
        n_missing
    from int_variant_gains
),

per_variant as (
    select
        benchmark,
        agent,
        measure,
        ratio_estimate(
            gain_pp,
            n_questions,
            case when count(gain_pp) = 0 then 'no_units' else 'nobody_asked' end,
            variant_id,
            cluster_index,
            cluster_count
        ) as estimate,
        coalesce(sum(n_trials), 0)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from paired
    group by benchmark, agent, measure
),

per_question as (
    select
        benchmark,
        agent,
        measure,
        struct_pack(
            value := round(estimate.value / estimate.n_units, 6),
            low := round(estimate.low / estimate.n_units, 6),
            high := round(estimate.high / estimate.n_units, 6),
            n_units := estimate.n_units,
            n_dropped := estimate.n_dropped,
            method := estimate.method,
            reason := estimate.reason
        ) as estimate,
        n_trials,
        n_missing
    from per_variant
)

select
    benchmark,
    agent,
    measure || '_gain_pp_per_question' as measure,
    estimate,
    n_trials,
    n_missing
from per_question
union all
select
    benchmark,
    agent,
    measure || '_gain_pp_per_question_per_variant' as measure,
    estimate,
    n_trials,
    n_missing
from per_variant
