-- view: generation_methods
-- grain: step, method, method_digest
-- inputs: int_calls_ended, stg_models_called, stg_segments_extracted,
--     stg_variants_generated, stg_variants_rejected
-- outputs:
--   step varchar: extraction or rewriting
--   method varchar: rules/N, written, or the model's name
--   method_digest varchar: digest of everything that decides its result; for written,
--       its name
--   n_tasks bigint: tasks that it worked on
--   n_accepted bigint: number of segments kept, or of variants made
--   n_refused bigint: number of proposed segments that were refused, or of variants
--       given up
--   n_judged bigint: number of variants made that a model accepted as well; null for
--       extractions
--   acceptance_rate double: share accepted, 0 to 1; null if there are no cases
--   attempts bigint: number of extractions, or of rewritings, including rejected ones
--   agreement double: how far other extractors find the same segments, 0 to 1; null for
--       rewritings, and if no other extractor had the same tasks
--   cost_usd double: price of its model calls, 0 without any; null if one is unknown
-- equation: agreement = mean over tasks and other extractors of 2 * values that both
--     find / values of both (Dice), 1 if neither finds a value
-- source: docs/generating.md
-- notes: if a task was extracted several times, the last extraction counts. Values are
--     compared without case and outer white space. A variant counts as given up after
--     its last attempt, or if a judge refused it after it was made. A variant that
--     another experiment made and keeps counts as made. The cost of a rewriter includes
--     its failed calls, by the rule of int_calls_ended, but not the judge of the gate.
--     Variants that reviewers wrote are left out. All texts that people wrote with
--     tasks are one method, although the stream names a separate method for each task.
with extractions as (
    select
        task_digest,
        extractor as method,
        if(extractor = 'written', extractor, extractor_digest) as method_digest,
        arg_max(
            {
                'segments': segments,
                'refused': len(rejected)
            },
            (recorded_at_us, stream_id, sequence)
        ) as found,
        count(*) as attempts,
        known_sum(cost_usd, true) as cost_usd
    from stg_segments_extracted
    group by all
),

found as (
    select
        *,
        list_distinct(
            list_transform(
                found.segments, lambda segment: trim(lower(segment.value))
            )
        ) as segment_values
    from extractions
),

compared as (
    select
        ones.method,
        ones.method_digest,
        avg(
            case
                when len(ones.segment_values) + len(others.segment_values) = 0
                    then 1.0
                else
                    2.0
                    * len(
                        list_intersect(
                            ones.segment_values, others.segment_values
                        )
                    )
                    / (len(ones.segment_values) + len(others.segment_values))
            end
        ) as agreement
    from found as ones
    inner join found as others
        on
            ones.task_digest = others.task_digest
            and ones.method_digest <> others.method_digest
    group by all
),

extractors as (
    select
        method,
        method_digest,
        count(*) as n_tasks,
        sum(len(found.segments))::bigint as n_accepted,
        sum(found.refused)::bigint as n_refused,
        sum(attempts)::bigint as attempts,
        known_sum(cost_usd, true) as cost_usd
    from found
    group by all
),

made as (
    select
        experiment_id,
        variant_id,
        task_digest,
        rewriter as method,
        if(rewriter = 'written', rewriter, rewriter_digest) as method_digest,
        true as is_made,
        bool_or(judge is not null) as is_judged,
        0 as rejections
    from stg_variants_generated
    where rewriter is not null and origin <> 'hand_written'
    group by all
),

rejected as (
    select
        experiment_id,
        variant_id,
        task_digest,
        rewriter as method,
        if(rewriter = 'written', rewriter, rewriter_digest) as method_digest,
        false as is_made,
        count(*) as rejections,
        bool_or(is_final) as is_final,
        bool_or(rewriting_attempt = 0) as is_withdrawn
    from stg_variants_rejected
    group by all
),

decided_there as (
    select
        experiment_id,
        variant_id,
        task_digest,
        method,
        method_digest,
        bool_or(is_made) and not coalesce(bool_or(is_withdrawn), false) as is_made,
        bool_or(is_made)
        and bool_or(is_judged)
        and not coalesce(bool_or(is_withdrawn), false) as is_judged,
        bool_or(is_final) as is_final,
        sum(rejections)::bigint as rejections
    from (
        select * from made
        union all by name
        select * from rejected
    ) as attempted
    group by all
),

decided as (
    select
        variant_id,
        task_digest,
        method,
        method_digest,
        bool_or(is_made) as is_made,
        bool_or(is_judged) as is_judged,
        bool_or(is_final) as is_final,
        sum(rejections + is_made::bigint)::bigint as attempts
    from decided_there
    group by all
),

calls as (
    select
        called.thread_id,
        known_sum(ended.cost_usd, true) as cost_usd
    from int_calls_ended as ended
    inner join stg_models_called as called
        on
            ended.stream_id = called.stream_id
            and ended.call_id = called.call_id
    where ended.role = 'rewriter' and called.thread_id is not null
    group by called.thread_id
),

rewriters as (
    select
        decided.method,
        decided.method_digest,
        count(distinct decided.task_digest) as n_tasks,
        count(*) filter (where decided.is_made) as n_accepted,
        count(*) filter (where decided.is_judged) as n_judged,
        count(*) filter (
            where not decided.is_made and decided.is_final
        ) as n_refused,
        sum(decided.attempts)::bigint as attempts,
        known_sum(calls.cost_usd, calls.thread_id is not null) as cost_usd
    from decided
    left join calls
        on 'rewrite-' || decided.variant_id = calls.thread_id
    group by all
)

select
    'extraction' as step,
    extractors.method,
    extractors.method_digest,
    extractors.n_tasks,
    extractors.n_accepted,
    extractors.n_refused,
    null::bigint as n_judged,
    extractors.n_accepted
    / nullif(extractors.n_accepted + extractors.n_refused, 0) as acceptance_rate,
    extractors.attempts,
    compared.agreement,
    extractors.cost_usd
from extractors
left join compared
    on
        extractors.method = compared.method
        and extractors.method_digest = compared.method_digest
union all by name
select
    'rewriting' as step,
    method,
    method_digest,
    n_tasks,
    n_accepted,
    n_refused,
    n_judged,
    n_accepted / nullif(n_accepted + n_refused, 0) as acceptance_rate,
    attempts,
    null::double as agreement,
    cost_usd
from rewriters
