-- view: int_pools
-- grain: benchmark, pool
-- inputs: int_cells
-- outputs:
--   benchmark
--   pool varchar: name of the benchmark; all for the pool of all benchmarks
--   is_single boolean: the pool of all benchmarks holds only one
-- equation: none
-- source: docs/metrics.md 4: the curve of each benchmark, and of all together
-- notes: for tables that pool benchmarks. With one benchmark both pools are the same.
--     A benchmark that ran only controls or faulty requests has nothing to pool.
with benchmarks as (
    select distinct benchmark
    from int_cells
    where
        unit_kind = 'variant'
        and not is_of_task
        and condition not in (
            'control', 'control_ask_user', 'faulty', 'faulty_ask_user'
        )
)

select
    benchmark,
    benchmark as pool,
    false as is_single
from benchmarks
union all
select
    benchmark,
    'all' as pool,
    count(*) over () = 1 as is_single
from benchmarks
