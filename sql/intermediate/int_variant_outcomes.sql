-- view: int_variant_outcomes
-- grain: variant_digest, agent, role
-- inputs: int_trials_measured
-- outputs:
--   variant_digest varchar: digest of the variant
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   role varchar: evaluated or classifier
--   benchmark varchar: name of the benchmark
--   variant_id varchar: id of the variant; null for a task's own trials
--   agent_name varchar: name of the agent as given
--   n_planned bigint: trials planned, at least those seen
--   n_trials bigint: valid trials, n
--   n_success bigint: successes among them, c
--   n_terminal_states bigint: different terminal states, |S|
-- equation: n = valid trials, c = successes, S = distinct terminal states
-- source: docs/metrics.md 2
-- notes: `underspecified` trials only, evaluated and classifying ones apart. Planned is
--     the recorded number per cell, at least the trials seen.
select
    variant_digest,
    agent,
    role,
    any_value(benchmark) as benchmark,
    any_value(variant_id) as variant_id,
    any_value(agent_name) as agent_name,
    greatest(coalesce(max(trials_per_cell), 0), count(*)) as n_planned,
    count(*) filter (where trial_state = 'valid') as n_trials,
    count(*) filter (where trial_state = 'valid' and is_success) as n_success,
    count(distinct terminal_state) filter (where trial_state = 'valid')
        as n_terminal_states
from int_trials_measured
where
    condition = 'underspecified'
    and (
        role <> 'classifier'
        or getvariable('classifier_experiment') is null
        or experiment_id = getvariable('classifier_experiment')
    )
group by variant_digest, agent, role
