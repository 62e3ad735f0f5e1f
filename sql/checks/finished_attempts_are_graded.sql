-- view: finished_attempts_are_graded
-- grain: stream_id
-- inputs: int_attempts
-- outputs:
--   stream_id, trial_id, attempt
-- equation: a finished attempt has exactly one primary result for every checkpoint of
--     its registered task
-- source: docs/metrics.md 1, valid
-- notes: returns the attempts that break the rule. They count as missing, not as
--     failed.
select
    stream_id,
    trial_id,
    attempt
from int_attempts
where attempt_state = 'ungraded'
