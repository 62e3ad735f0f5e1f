-- view: failure_modes
-- grain: benchmark, agent, category, measure
-- inputs: int_failure_modes
-- outputs:
--   benchmark, agent
--   category varchar: failure mode, one of seven
--   measure varchar: any_flag, or one of the three flags of the category
--   value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing, method,
--   reason
-- equation: trials with the flag / all trials with questions
-- source: docs/metrics.md 3 and 6, failure modes [LHAW table 4]
-- notes: units are trials. question_flags says which flags are computed and which are
--     judged. Trials without a judge's verdict are counted in n_dropped (unjudged). A
--     flag that does not apply counts as not raised. n_missing counts all missing
--     trials of ask_user, with or without questions.
select * exclude (is_of_failed)
from int_failure_modes
where not is_of_failed
