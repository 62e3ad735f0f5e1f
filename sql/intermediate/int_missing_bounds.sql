-- view: int_missing_bounds
-- grain: cell_id, measure
-- inputs: int_cells
-- outputs:
--   cell_id
--   measure varchar: pass_at_1, pass_at_k or checkpoint_progress
--   least double: the value of the cell if all its missing trials failed
--   most double: the value of the cell if all its missing trials succeeded
-- equation: as in int_cells, with n + n_missing trials
-- source: docs/metrics.md 5, missing trials
-- notes: a cell with too few planned trials for pass@k has no bounds.
with leveled as (
    select
        cell_id,
        unnest(levels) as level
    from int_cells
    where not is_of_task
)

select
    cell_id,
    level.name as measure,
    level.least,
    level.most
from leveled
where level.name <> 'pass_hat_k'
