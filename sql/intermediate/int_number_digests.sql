-- view: int_number_digests
-- grain: n
-- inputs: int_streams
-- outputs:
--   n bigint: number of numbers
--   from_zero hugeint: multiset_digest of 0 to n - 1
--   from_one hugeint: multiset_digest of 1 to n
-- equation: none
-- source: none; for checks that numbers have no gap
-- notes: n goes up to the length of the longest stream.
with numbers as (
    select unnest(range(1, max(n_events) + 1)) as n
    from int_streams
)

select
    n,
    sum(hash(n - 1)) over (order by n) as from_zero,
    sum(hash(n)) over (order by n) as from_one
from numbers
