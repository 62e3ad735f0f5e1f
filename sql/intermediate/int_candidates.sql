-- view: int_candidates
-- grain: variant_digest
-- inputs: ambiguity_classes, int_task_clusters, int_trials_evaluated,
--     int_trials, int_variants
-- outputs:
--   variant_digest, benchmark, task_id, variant_id
--   severity varchar: delete, vaguify, genericize, decoy, environment or unknown
--   dimensions varchar: its dimensions joined by +; none without segments
--   ambiguity_class varchar: outcome-critical, divergent, benign, new_task or
--       unclassified
--   is_evaluated boolean: the tables have trials of it
--   cluster_id
-- equation: none
-- source: docs/metrics.md 6, by_severity and variant_breakdown; parameter `experiment`
-- notes: all registered variants except controls and faulty requests, including untried
--     and new_task variants. Of a changed variant, only the version of the trial that
--     started last is used. With `experiment` there are only the variants that it ran.
--     Dimensions are in the order goal, constraint, input, context, each once.
with tried as (
    select
        benchmark,
        variant_id,
        arg_max(variant_digest, (recorded_at_us, trial_id)) as variant_digest
    from int_trials
    where
        variant_id is not null
        and (
            getvariable('experiment') is null
            or experiment_id = getvariable('experiment')
        )
    group by benchmark, variant_id
),

evaluated as (
    select distinct variant_digest
    from int_trials_evaluated
),

described as (
    select
        int_variants.variant_digest,
        int_variants.benchmark,
        int_variants.task_id,
        int_variants.variant_id,
        coalesce(int_variants.severity, 'unknown') as severity,
        list_transform(
            int_variants.segments, lambda segment: segment.dimension
        ) as dimensions,
        coalesce(classes.ambiguity_class, 'unclassified') as ambiguity_class,
        evaluated.variant_digest is not null as is_evaluated,
        clusters.cluster_id
    from int_variants
    inner join int_task_clusters as clusters
        on
            int_variants.benchmark = clusters.benchmark
            and int_variants.task_id = clusters.task_id
    left join tried
        on
            int_variants.benchmark = tried.benchmark
            and int_variants.variant_id = tried.variant_id
    left join ambiguity_classes as classes
        on int_variants.variant_digest = classes.variant_digest
    left join evaluated
        on int_variants.variant_digest = evaluated.variant_digest
    where
        int_variants.origin is distinct from 'control'
        and int_variants.fault is null
        and (
            tried.variant_digest = int_variants.variant_digest
            or (tried.variant_digest is null and getvariable('experiment') is null)
        )
)

select
    variant_digest,
    benchmark,
    task_id,
    variant_id,
    severity,
    coalesce(
        nullif(
            array_to_string(
                list_filter(
                    ['goal', 'constraint', 'input', 'context'],
                    lambda name: list_contains(dimensions, name)
                ),
                '+'
            ),
            ''
        ),
        'none'
    ) as dimensions,
    ambiguity_class,
    is_evaluated,
    cluster_id
from described
