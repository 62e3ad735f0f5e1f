-- view: int_persona_gains
-- grain: benchmark, agent, variant_id, measure
-- inputs: int_agent_arms, int_variant_values
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
--   gain double: ask_user of the agent minus underspecified of its base agent
--   reason varchar: why something is null
--   n_trials bigint: valid trials of both arms
--   n_missing bigint: missing trials of both arms
--   n_questions bigint: questions of the ask arm
--   pair_id varchar: names the pair of arms
-- equation: gain = value(ask_user, with the persona) - value(underspecified, persona
--     none)
-- source: docs/metrics.md 3, by_persona [LHAW table 14]
-- notes: agents with a persona; those without have their own gains in
--     int_variant_gains. Paired as there. Without a base agent every gain is null.
with arms as (
    select
        benchmark,
        agent,
        base_agent,
        base_reason
    from int_agent_arms
    where persona <> 'none'
),

asked as (
    select
        arms.benchmark,
        arms.agent,
        units.variant_id,
        units.measure,
        units.variant_digest,
        units.ambiguity_class,
        units.cluster_index,
        units.cluster_count,
        units.unit_value,
        units.reason,
        units.n_trials,
        units.n_missing,
        units.n_questions,
        arms.base_reason
    from arms
    inner join int_variant_values as units
        on
            arms.benchmark = units.benchmark
            and arms.agent = units.agent
            and units.condition = 'ask_user'
            and units.measure <> 'pass_hat_k'
),

asking as (
    select distinct
        benchmark,
        agent
    from asked
),

unasked as (
    select
        arms.benchmark,
        arms.agent,
        units.variant_id,
        units.measure,
        units.variant_digest,
        units.ambiguity_class,
        units.cluster_index,
        units.cluster_count,
        units.unit_value,
        units.reason,
        units.n_trials,
        units.n_missing
    from arms
    inner join int_variant_values as units
        on
            arms.benchmark = units.benchmark
            and arms.base_agent = units.agent
            and units.condition = 'underspecified'
            and units.measure <> 'pass_hat_k'
    inner join asking
        on arms.benchmark = asking.benchmark and arms.agent = asking.agent
),

paired as (
    select
        coalesce(asked.benchmark, unasked.benchmark) as benchmark,
        coalesce(asked.agent, unasked.agent) as agent,
        coalesce(asked.variant_id, unasked.variant_id) as variant_id,
        coalesce(asked.measure, unasked.measure) as measure,
        coalesce(asked.variant_digest, unasked.variant_digest) as variant_digest,
        coalesce(asked.ambiguity_class, unasked.ambiguity_class) as ambiguity_class,
        coalesce(asked.cluster_index, unasked.cluster_index) as cluster_index,
        coalesce(asked.cluster_count, unasked.cluster_count) as cluster_count,
        asked.unit_value - unasked.unit_value as gain,
        case
            when asked.base_reason is not null then asked.base_reason
            when asked.variant_id is null or unasked.variant_id is null
                then 'one_arm_only'
            else coalesce(asked.reason, unasked.reason)
        end as reason,
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
    gain,
    reason,
    n_trials,
    n_missing,
    n_questions,
    concat_ws('|', benchmark, agent, 'base', variant_id) as pair_id
from paired
