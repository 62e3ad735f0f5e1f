-- macro: oracle_decision
-- inputs: an ambiguity class
-- outputs: varchar: CLARIFY or PROCEED; null for new_task, or without a class
-- equation: outcome-critical: CLARIFY; divergent and benign: PROCEED
-- source: docs/metrics.md 2, oracle_decision [LHAW README]
-- notes: none
create or replace macro oracle_decision(ambiguity_class) as case ambiguity_class
    when 'outcome-critical' then 'CLARIFY'
    when 'divergent' then 'PROCEED'
    when 'benign' then 'PROCEED'
end
