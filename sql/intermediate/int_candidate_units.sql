-- view: int_candidate_units
-- grain: table_name, benchmark, agent, own_agent, group_name, subgroup_name, condition,
--     measure, unit_id
-- inputs: int_candidates, int_variants_classified
-- outputs:
--   table_name varchar: table that the row is for
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   own_agent varchar: agent that did it, where agent is all
--   group_name varchar: first key of the row in its table; all
--   subgroup_name varchar: second key of the row in its table; all
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   unit_id varchar: task or variant id
--   numerator double: above the line
--   denominator double: below the line; 1 for a mean
--   is_binary boolean: n = k, so pass@k is 0 or 1
--   reason varchar: why something is null
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
-- equation: pass@k = 1 - C(n-c, k) / C(n, k) over the classifying trials
-- source: docs/metrics.md 2 and 3 [LHAW table 11]; parameter `k`
-- notes: all candidates that classifying trials were made of, new_task and unclassified
--     ones included. Clusters are the tasks of the candidates.
with classified as (
    select
        candidates.benchmark,
        classified.agent,
        candidates.severity,
        candidates.variant_id,
        classified.n_trials,
        classified.n_success,
        classified.n_planned - classified.n_trials as n_missing,
        candidates.cluster_index,
        candidates.cluster_count
    from int_candidates as candidates
    inner join int_variants_classified as classified
        on
            candidates.variant_digest = classified.variant_digest
            and classified.role = 'classifier'
)

select
    'by_severity' as table_name,
    benchmark,
    agent,
    agent as own_agent,
    severity as group_name,
    'all' as subgroup_name,
    'underspecified' as condition,
    'candidate_pass_at_k' as measure,
    variant_id as unit_id,
    case
        when n_trials >= getvariable('k')
            then 1 - list_product(
                list_transform(
                    range(0, getvariable('k')),
                    lambda i: greatest(n_trials - n_success - i, 0) / (n_trials - i)
                )
            )
    end as numerator,
    1.0::double as denominator,
    n_trials = getvariable('k') as is_binary,
    case when n_trials < getvariable('k') then 'too_few_trials' end as reason,
    n_trials,
    n_missing,
    cluster_index,
    cluster_count
from classified
