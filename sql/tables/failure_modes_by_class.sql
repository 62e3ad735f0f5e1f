-- view: failure_modes_by_class
-- grain: benchmark, ambiguity_class, agent, category, measure
-- inputs: int_flag_values
-- outputs:
--   benchmark, ambiguity_class, agent
--   category varchar: failure mode, one of seven
--   measure varchar: any_flag, or one of the three flags of the category
--   value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing, method,
--   reason
-- equation: trials with the flag / trials with questions of a class
-- source: docs/metrics.md 3 and 6, failure modes [LHAW figure 5]
-- notes: the class is the assigned class of the variant. Units are trials.
--     question_flags says which flags are computed and which are judged. Trials without
--     a judge's verdict are counted in n_dropped (unjudged). A flag that does not apply
--     counts as not raised. n_missing counts all missing trials of ask_user, with or
--     without questions.
select
    benchmark,
    ambiguity_class,
    agent,
    category,
    measure,
    unnest(flag_estimate(unit_value, reason, cluster_id, n_missing_of_class))
from int_flag_values
where ambiguity_class is not null
group by benchmark, ambiguity_class, agent, category, measure
