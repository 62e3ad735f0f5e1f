-- view: int_grades
-- grain: stream_id
-- inputs: int_results, int_trials
-- outputs:
--   stream_id varchar: the attempt, or run, in the event stream
--   terminal_state double[]: checkpoint results in order
--   scores double[]: raw points in order
--   points_progress double: share of the points, 0 to 1
-- equation: points progress = sum(score) / sum(total)
-- source: docs/metrics.md 1, terminal state and checkpoint progress
-- notes: only attempts that count. Results stand in the order of task_registered.
select
    int_trials.stream_id,
    list_transform(int_results.results, lambda r: r.result) as terminal_state,
    list_transform(int_results.results, lambda r: r.score) as scores,
    list_sum(list_transform(int_results.results, lambda r: r.score))
    / nullif(list_sum(list_transform(int_results.results, lambda r: r.total)), 0)
        as points_progress
from int_trials
inner join int_results
    on int_trials.stream_id = int_results.stream_id
