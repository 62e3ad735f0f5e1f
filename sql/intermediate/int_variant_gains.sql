-- view: int_variant_gains
-- grain: benchmark, agent, variant_id, measure
-- inputs: int_variant_values
-- outputs:
--   benchmark varchar: name of the benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat; all
--       pools agents
--   variant_id varchar: id of the variant; null for a task's own trials
--   measure varchar: what is measured
--   variant_digest varchar: digest of the variant
--   ambiguity_class varchar: outcome-critical, divergent, benign or new_task
--   cluster_index bigint: number of the cluster in its set, from 0
--   cluster_count bigint: clusters in the set
--   asked_value double: value under ask_user
--   unasked_value double: value under underspecified
--   gain double: ask_user minus underspecified
--   reason varchar: why something is null
--   n_trials bigint: valid trials of both arms
--   n_missing bigint: missing trials of both arms
--   n_questions bigint: questions of the ask arm
--   pair_id varchar: names the pair of arms
-- equation: gain = value(ask_user) - value(underspecified)
-- source: docs/metrics.md 3, gain
-- notes: paired: a variant without a value in one arm has a null gain and a reason, and
--     is counted as dropped. Trials and missing trials are those of both arms. An agent
--     that never had the ask_user arm has no row.
with asked as (
    select *
    from int_variant_values
    where condition = 'ask_user' and measure <> 'pass_hat_k'
),

unasked as (
    select *
    from int_variant_values
    where condition = 'underspecified' and measure <> 'pass_hat_k'
),

arms as (
    select
        coalesce(asked.benchmark, unasked.benchmark) as benchmark,
        coalesce(asked.agent, unasked.agent) as agent,
        coalesce(asked.variant_id, unasked.variant_id) as variant_id,
        coalesce(asked.measure, unasked.measure) as measure,
        coalesce(asked.variant_digest, unasked.variant_digest) as variant_digest,
        coalesce(asked.ambiguity_class, unasked.ambiguity_class) as ambiguity_class,
        coalesce(asked.cluster_index, unasked.cluster_index) as cluster_index,
        coalesce(asked.cluster_count, unasked.cluster_count) as cluster_count,
        asked.unit_value as asked_value,
        unasked.unit_value as unasked_value,
        asked.variant_id is null or unasked.variant_id is null as is_one_armed,
        coalesce(asked.reason, unasked.reason) as arm_reason,
        coalesce(asked.n_trials, 0) + coalesce(unasked.n_trials, 0) as n_trials,
        coalesce(asked.n_missing, 0) + coalesce(unasked.n_missing, 0) as n_missing,
        asked.n_questions
    from asked
    full outer join unasked
        on
            asked.benchmark = unasked.benchmark
            and asked.agent = unasked.agent
            and asked.variant_id = unasked.variant_id
            and asked.measure = unasked.measure
    qualify
        count(asked.variant_id) over (
            partition by
                coalesce(asked.benchmark, unasked.benchmark),
                coalesce(asked.agent, unasked.agent)
        ) > 0
)

select
    benchmark,
    agent,
    variant_id,
    measure,
    variant_digest,
    ambiguity_class,
    cluster_index,
    cluster_count,
    asked_value,
    unasked_value,
    asked_value - unasked_value as gain,
    case
        when is_one_armed then 'one_arm_only'
        when asked_value is null or unasked_value is null then arm_reason
    end as reason,
    n_trials,
    n_missing,
    n_questions,
    concat_ws('|', benchmark, agent, variant_id) as pair_id
from arms
