-- view: observed_classes
-- grain: variant_digest, agent, role
-- inputs: int_variants_classified
-- outputs:
--   variant_digest varchar: digest of the variant
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   role varchar: evaluated or classifier
--   benchmark varchar: name of the benchmark
--   variant_id varchar: id of the variant; null for a task's own trials
--   n_planned bigint: trials planned, at least those seen
--   n_trials bigint: valid trials behind the value
--   n_success bigint: successes among them
--   n_terminal_states bigint: different terminal states, |S|
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   new_task_verdict varchar: confirmed, rejected, unjudged or not_applicable
--   oracle_decision varchar: CLARIFY or PROCEED
--   reason varchar: why something is null
-- equation: that of int_variants_classified
-- source: docs/metrics.md 2: the class depends on the classifying agent
-- notes: what each agent's own trials would say. The tables never use an evaluated
--     agent's own class; see ambiguity_classes.
select
    variant_digest,
    agent,
    role,
    benchmark,
    variant_id,
    n_planned,
    n_trials,
    n_success,
    n_terminal_states,
    ambiguity_class,
    new_task_verdict,
    case ambiguity_class
        when 'outcome-critical' then 'CLARIFY'
        when 'divergent' then 'PROCEED'
        when 'benign' then 'PROCEED'
    end as oracle_decision,
    reason
from int_variants_classified
