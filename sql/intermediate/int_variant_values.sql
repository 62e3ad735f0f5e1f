-- view: int_variant_values
-- grain: benchmark, agent, variant_id, condition, measure
-- inputs: int_unit_values
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   variant_id varchar: id of the variant; null for a task's own trials
--   condition varchar: condition of the trials
--   measure varchar: what is measured
--   task_id varchar: id of the task
--   variant_digest varchar: digest of the variant
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   cell_id varchar: names the cell of trials behind a value
--   n_trials bigint: valid trials behind the value
--   n_missing bigint: planned trials neither valid nor running
--   n_not_injected bigint: valid trials left out: ended before the injection
--   n_questions bigint: questions
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
--   unit_value double: value of the unit
--   reason varchar: why something is null
--   is_binary boolean: n = k, so pass@k is 0 or 1
-- equation: none
-- source: docs/metrics.md 3, units: the (variant, agent), whose `full` value is that of
--     its task
-- notes: under oracle scope variant the variant's own `full` trials are taken. Every
--     variant that the agent met under any condition has a row for `full` where its
--     task has one. cell_id is that of the trials behind the value.
with own as (
    select
        benchmark,
        agent,
        variant_id,
        condition,
        measure,
        task_id,
        variant_digest,
        ambiguity_class,
        cell_id,
        n_trials,
        n_missing,
        n_not_injected,
        n_questions,
        cluster_index,
        cluster_count,
        unit_value,
        reason,
        is_binary
    from int_unit_values
    where unit_kind = 'variant'
),

variants as (
    select
        benchmark,
        agent,
        variant_id,
        any_value(task_id) as task_id,
        any_value(variant_digest) as variant_digest,
        any_value(ambiguity_class) as ambiguity_class,
        any_value(cluster_index) as cluster_index,
        any_value(cluster_count) as cluster_count,
        bool_or(condition = 'full') as has_own_full
    from own
    group by benchmark, agent, variant_id
),

shared as (
    select
        variants.benchmark,
        variants.agent,
        variants.variant_id,
        task_values.condition,
        task_values.measure,
        variants.task_id,
        variants.variant_digest,
        variants.ambiguity_class,
        task_values.cell_id,
        task_values.n_trials,
        task_values.n_missing,
        task_values.n_not_injected,
        task_values.n_questions,
        variants.cluster_index,
        variants.cluster_count,
        task_values.unit_value,
        task_values.reason,
        task_values.is_binary
    from variants
    inner join int_unit_values as task_values
        on
            variants.benchmark = task_values.benchmark
            and variants.agent = task_values.agent
            and variants.task_id = task_values.unit_id
            and task_values.unit_kind = 'task'
            and task_values.condition = 'full'
    where not variants.has_own_full
)

select * from own
union all by name
select * from shared
