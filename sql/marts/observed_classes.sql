-- view: observed_classes
-- grain: variant_digest, agent, role
-- inputs:
-- outputs:
-- equation: that of int_variants_classified
-- source: METRICS 2; FACTS B2.19: the class depends on the classifying agent
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
