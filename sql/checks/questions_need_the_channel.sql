-- view: questions_need_the_channel
-- grain: stream_id
-- inputs: int_attempts, int_questions_placed
-- outputs:
--   stream_id, condition
--   n_questions bigint: questions
-- equation: only trials of ask_user and full_ask_user have questions
-- source: ARCHITECTURE.md, glossary, channel
-- notes: returns the attempts that break the rule.
select
    asked.stream_id,
    started.condition,
    count(*) as n_questions
from int_questions_placed as asked
inner join int_attempts as started
    on asked.stream_id = started.stream_id
where started.channel <> 'ask_user'
group by asked.stream_id, started.condition
