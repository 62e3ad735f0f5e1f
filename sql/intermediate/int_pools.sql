-- view: int_pools
-- grain: benchmark, pool
-- inputs: int_cells
-- outputs:
--   benchmark
--   pool varchar: name of the benchmark; all for the pool of all benchmarks
--   is_single boolean: the pool of all benchmarks has only one benchmark
-- equation: none
-- source: docs/metrics.md 4: the curve of each benchmark, and of all benchmarks
--     together
-- notes: the pools of tables that pool benchmarks. With one benchmark both pools are
--     the same. A benchmark with only controls or faulty requests has no pool.
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
