-- view: actions_are_numbered
-- grain: stream_id
-- inputs: stg_actions_started
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   n_actions bigint: actions
--   n_indexes bigint: different numbers
--   first_index bigint: lowest number
--   last_index bigint: highest number
-- equation: the actions of an attempt are 1, 2, 3, ... each once
-- source: ARCHITECTURE.md, glossary, action
-- notes: returns the attempts that break it.
with numbered as (
    select
        stream_id,
        count(*) as n_actions,
        count(distinct action_index) as n_indexes,
        min(action_index) as first_index,
        max(action_index) as last_index
    from stg_actions_started
    group by stream_id
)

select
    stream_id,
    n_actions,
    n_indexes,
    first_index,
    last_index
from numbered
where
    first_index <> 1
    or last_index <> n_actions
    or n_indexes <> n_actions
