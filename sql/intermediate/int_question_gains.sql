-- view: int_question_gains
-- grain: benchmark, agent, measure
-- inputs: int_variant_gains
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   measure varchar: what is measured
--   estimate struct: value, low, high, n_units, n_dropped, method, reason
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
-- equation: with g the gain in percentage points and q the questions of the ask arm of
--     a paired variant: per question per variant = sum(g) / sum(q); per question =
--     mean(g) / sum(q) = the former / number of variants
-- source: docs/metrics.md 3, gain per question
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
        case when n_questions is not null then 100 * gain end as gain_pp,
        case when gain is not null then n_questions end as n_questions,
        case when gain is not null and n_questions is not null then n_trials end
            as n_trials,
        n_missing,
        case
            when gain is not null and n_questions is null then 'unknown_actions'
            else reason
        end as reason
    from int_variant_gains
),

per_variant as (
    select
        benchmark,
        agent,
        measure,
        sum(gain_pp) as total_gain_pp,
        sum(n_questions) as total_questions,
        ratio_interval(gain_pp, n_questions, cluster_index, cluster_count)
            as bounds,
        count(gain_pp) as n_units,
        count(*) - count(gain_pp) as n_dropped,
        coalesce(sum(n_trials), 0)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing,
        case
            when count(gain_pp) = 0 then min(reason)
            else 'nobody_asked'
        end as reason
    from paired
    group by benchmark, agent, measure
),

estimated as (
    select
        benchmark,
        agent,
        case measure when 'pass_at_k' then 'pass' else 'progress' end as short_name,
        as_estimate(
            total_gain_pp / nullif(total_questions, 0),
            bounds,
            n_units,
            n_dropped,
            reason
        ) as per_variant,
        as_estimate(
            total_gain_pp / nullif(total_questions, 0) / n_units,
            case
                when bounds is not null
                    then struct_pack(
                        low := round(bounds.low / n_units, 6),
                        high := round(bounds.high / n_units, 6),
                        method := bounds.method
                    )
            end,
            n_units,
            n_dropped,
            reason
        ) as per_question,
        n_trials,
        n_missing
    from per_variant
)

select
    benchmark,
    agent,
    short_name || '_pp_per_question' as measure,
    per_question as estimate,
    n_trials,
    n_missing
from estimated
union all
select
    benchmark,
    agent,
    short_name || '_pp_per_question_per_variant' as measure,
    per_variant as estimate,
    n_trials,
    n_missing
from estimated
