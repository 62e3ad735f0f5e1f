-- view: variant_breakdown
-- grain: benchmark, variant_set, dimensions, ambiguity_class, measure
-- inputs: int_candidates, int_variant_dimensions
-- outputs:
--   benchmark
--   agent varchar: all
--   variant_set varchar: evaluated, or registered for every variant of the store
--   dimensions varchar: dimensions of the variant joined by +; none without segments;
--       or all
--   ambiguity_class varchar: outcome-critical, divergent, benign, new_task,
--       unclassified, or all
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing,
--   method, reason
-- equation: variants = number of variants with exactly these dimensions;
--     variants_in_dimension = number counted in a dimension; tasks = number of their
--     tasks
-- source: docs/metrics.md 3 and 6 [Ask Early table 10; LHAW figure 3]; parameter `per`
-- notes: evaluated variants have trials in the tables. Registered variants are all
--     variants of int_candidates. In variants_in_dimension, `per` decides how often a
--     variant counts, so with per = segment the sum is the number of removed segments.
--     Counts have no interval and no trials.
with sets as (
    select
        benchmark,
        unnest(
            case
                when is_evaluated then ['registered', 'evaluated']
                else ['registered']
            end
        ) as variant_set,
        variant_digest,
        task_id,
        cluster_id,
        dimensions,
        ambiguity_class
    from int_candidates
),

counted as (
    select
        benchmark,
        variant_set,
        unnest([dimensions, 'all']) as dimensions,
        ambiguity_class,
        'variants' as measure,
        variant_digest as counted_id,
        cluster_id
    from sets
    union all
    select
        benchmark,
        variant_set,
        'all' as dimensions,
        ambiguity_class,
        'tasks' as measure,
        task_id as counted_id,
        cluster_id
    from sets
    union all
    select
        sets.benchmark,
        sets.variant_set,
        memberships.dimension as dimensions,
        sets.ambiguity_class,
        'variants_in_dimension' as measure,
        concat_ws('|', sets.variant_digest, memberships.position) as counted_id,
        sets.cluster_id
    from sets
    inner join int_variant_dimensions as memberships
        on sets.variant_digest = memberships.variant_digest
),

classed as (
    select
        benchmark,
        variant_set,
        dimensions,
        unnest(['all', ambiguity_class]) as ambiguity_class,
        measure,
        counted_id,
        cluster_id
    from counted
)

select
    benchmark,
    'all' as agent,
    variant_set,
    dimensions,
    ambiguity_class,
    measure,
    count(distinct counted_id)::double as value,
    null::double as low,
    null::double as high,
    count(distinct counted_id) as n_units,
    0::bigint as n_dropped,
    count(distinct cluster_id) as n_clusters,
    0::bigint as n_trials,
    0::bigint as n_missing,
    null::varchar as method,
    'count' as reason
from classed
group by benchmark, variant_set, dimensions, ambiguity_class, measure
