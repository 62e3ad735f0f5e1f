-- view: int_exchange_readings
-- grain: stream_id, question_id, judge
-- inputs: stg_questions_answered
-- outputs:
--   stream_id
--   question_id varchar: id of the question in its stream
--   judge varchar: rules/N, MODEL#DIGEST of its prompt, or a person; null for no judge
--   is_chosen boolean: the reading that tables use; one for each answer
--   request varchar: what the question asks for: segments, something_else or everything
--   asks_for varchar[]: removed segments that the question asks for; null if unknown
--   gives varchar[]: removed segments whose value the answer gives; null if unknown
--   withheld varchar[]: segments that should have been given; null if unknown
--   verdict varchar: right, withheld, volunteered or leaked; null if unknown
-- equation: none
-- source: docs/metrics.md 3, judges of questions and answers; parameter
--     `exchange_judge`
-- notes: an answer without readings counts as judged by rules/1: the question asks for
--     the segments that the answer revealed on request and for those that it withheld.
--     Every answer also has a row in which judge is null and everything else is
--     unknown. is_chosen marks this row if the chosen judge did not read the exchange.
--     The chosen judge is the simulator's own unless the parameter names another one.
--     `rules` stands for any version of the rules.
with readings as (
    select
        stream_id,
        question_id,
        unnest(range(1, len(readings) + 1)) as position,
        readings[position] as reading
    from stg_questions_answered
),

reconstructed as (
    select
        stream_id,
        question_id,
        withheld,
        list_transform(
            list_filter(revealed, lambda segment: segment.is_requested),
            lambda segment: segment.segment_id
        ) as requested,
        list_distinct(
            list_transform(revealed, lambda segment: segment.segment_id)
        ) as gives
    from stg_questions_answered
    where coalesce(len(readings), 0) = 0 and revealed is not null
),

united as (
    select
        stream_id,
        question_id,
        reading.judge,
        position,
        reading.request,
        reading.asks_for,
        reading.gives,
        reading.withheld,
        reading.verdict
    from readings
    union all
    select
        stream_id,
        question_id,
        'rules/1' as judge,
        1 as position,
        case
            when len(requested) + coalesce(len(withheld), 0) > 0 then 'segments'
            else 'something_else'
        end as request,
        list_distinct(list_concat(requested, coalesce(withheld, []))) as asks_for,
        gives,
        withheld,
        case
            when len(gives) > len(list_distinct(requested)) then 'volunteered'
            when len(withheld) > 0 then 'withheld'
            when withheld is not null then 'right'
        end as verdict
    from reconstructed
    union all
    select
        stream_id,
        question_id,
        null as judge,
        null as position,
        null as request,
        null as asks_for,
        null as gives,
        null as withheld,
        null as verdict
    from stg_questions_answered
),

known as (
    select
        *,
        coalesce(getvariable('exchange_judge'), judge) in (
            judge, regexp_replace(judge, '^rules/.*', 'rules')
        ) as is_wanted
    from united
)

select
    stream_id,
    question_id,
    judge,
    row_number() over (
        partition by stream_id, question_id
        order by judge is not null and not is_wanted, position nulls last
    ) = 1 as is_chosen,
    request,
    asks_for,
    gives,
    withheld,
    verdict
from known
