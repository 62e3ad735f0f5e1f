-- view: task_ask_rates
-- grain: benchmark, agent, task_id
-- inputs: pass_at_k
-- outputs:
--   benchmark, agent, task_id, n_units, n_trials, n_missing
--   n_asking_trials bigint: measured trials with a question; null if unknown
--   ask_pct double: share of trials that asked, %; null if unknown
-- equation: ask_pct = 100 * trials that asked / trials
-- source: docs/metrics.md 4, natural asking [Ask Early figure 10]
-- notes: the trials are valid trials of ask_user, over all variants of a task. ask_pct
--     is null without trials, or if it is unknown for any trial whether it asked.
select
    benchmark,
    agent,
    task_id,
    count(*) as n_units,
    sum(n_trials)::bigint as n_trials,
    sum(n_missing)::bigint as n_missing,
    case when count(*) = count(n_asking_trials) then sum(n_asking_trials) end::bigint
        as n_asking_trials,
    100.0
    * case when count(*) = count(n_asking_trials) then sum(n_asking_trials) end
    / nullif(sum(n_trials), 0) as ask_pct
from pass_at_k
where unit_kind = 'variant' and condition = 'ask_user'
group by benchmark, agent, task_id
