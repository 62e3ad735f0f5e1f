-- view: actions_are_numbered
-- grain: stream_id
-- inputs: int_action_counts, int_number_digests, stg_actions_started
-- outputs:
--   stream_id
--   n_actions bigint: actions
--   n_indexes bigint: different numbers
--   first_index bigint: lowest number
--   last_index bigint: highest number
-- equation: the numbers of an attempt's actions are 1, 2, 3, ... each once
-- source: ARCHITECTURE.md, glossary, action
-- notes: returns the attempts that break the rule. Only attempts whose digest is not
--     that of 1, 2, 3, ... are examined.
with suspects as (
    select counts.stream_id
    from int_action_counts as counts
    inner join int_number_digests as digests
        on counts.action_count = digests.n
    where counts.index_digest <> digests.from_one
),

numbered as (
    select
        stream_id,
        count(*) as n_actions,
        count(distinct action_index) as n_indexes,
        min(action_index) as first_index,
        max(action_index) as last_index
    from stg_actions_started
    where stream_id in (select suspects.stream_id from suspects)
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
