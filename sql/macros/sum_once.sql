-- macro: sum_once
-- inputs: rows in which a cell of trials may occur several times
-- outputs: bigint
-- equation: sum of n over the distinct cells
-- source: docs/metrics.md 3 (variants of one task share its `full` trials)
-- notes: a null n adds nothing; no rows give 0.
create or replace macro sum_once(cell_id, n) as coalesce(
    list_sum(
        list_transform(
            list(distinct { 'cell_id': cell_id, 'n': n }), lambda cell: cell.n
        )
    ),
    0
)::bigint
