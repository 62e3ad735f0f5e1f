-- view: int_clusters
-- grain: benchmark, cluster_kind, cluster_id
-- inputs: int_trials_evaluated
-- outputs:
--   benchmark varchar: name of the benchmark
--   cluster_kind varchar: task or variant
--   cluster_id varchar: task or variant id
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
-- equation: none
-- source: docs/metrics.md 5: one weight matrix shared by all cells of a set
-- notes: the set is every task (kind task) or every variant (kind variant) of a
--     benchmark, numbered from 0 in the order of their names.
with members as (
    select
        benchmark,
        'task' as cluster_kind,
        task_id as cluster_id
    from int_trials_evaluated
    union
    select
        benchmark,
        'variant' as cluster_kind,
        variant_id as cluster_id
    from int_trials_evaluated
    where variant_id is not null
)

select
    benchmark,
    cluster_kind,
    cluster_id,
    row_number() over (
        partition by benchmark, cluster_kind order by cluster_id
    ) - 1 as cluster_index,
    count(*) over (partition by benchmark, cluster_kind) as cluster_count
from members
