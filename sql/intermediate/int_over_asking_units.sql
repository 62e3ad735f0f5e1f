-- view: int_over_asking_units
-- grain: table_name, benchmark, agent, own_agent, group_name, subgroup_name, condition,
--     measure, unit_id
-- inputs: pass_at_k
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
-- equation: pass_at_k_difference = pass@k(full_ask_user) - pass@k(full), paired
-- source: docs/metrics.md 3, over-asking (ours)
-- notes: tasks under full_ask_user. A task without a value in one arm has no
--     difference; an agent that never had full_ask_user has no row.
with asked as (
    select *
    from pass_at_k
    where unit_kind = 'task' and condition = 'full_ask_user'
),

asking as (
    select distinct
        benchmark,
        agent
    from asked
),

unasked as (
    select units.*
    from pass_at_k as units
    inner join asking
        on units.benchmark = asking.benchmark and units.agent = asking.agent
    where units.unit_kind = 'task' and units.condition = 'full'
),

paired as (
    select
        coalesce(asked.benchmark, unasked.benchmark) as benchmark,
        coalesce(asked.agent, unasked.agent) as agent,
        coalesce(asked.unit_id, unasked.unit_id) as unit_id,
        coalesce(asked.cluster_index, unasked.cluster_index) as cluster_index,
        coalesce(asked.cluster_count, unasked.cluster_count) as cluster_count,
        asked.unit_id is not null as is_asked,
        asked.pass_at_k,
        asked.pass_at_k - unasked.pass_at_k as difference,
        coalesce(asked.is_binary, false) as is_binary,
        asked.reason,
        case
            when asked.unit_id is null or unasked.unit_id is null then 'one_arm_only'
            else coalesce(asked.reason, unasked.reason)
        end as pair_reason,
        case
            when asked.n_trials > 0 and asked.n_questions is null
                then 'unknown_actions'
            else 'no_valid_trials'
        end as ask_reason,
        coalesce(asked.n_trials, 0) as n_trials,
        coalesce(asked.n_missing, 0) as n_missing,
        coalesce(unasked.n_trials, 0) as n_unasked_trials,
        coalesce(unasked.n_missing, 0) as n_unasked_missing,
        asked.n_questions,
        asked.n_asking_trials
    from asked
    full outer join unasked
        on
            asked.benchmark = unasked.benchmark
            and asked.agent = unasked.agent
            and asked.unit_id = unasked.unit_id
),

measured as (
    select
        *,
        unnest(
            [
                {
                    'measure': 'pass_at_k',
                    'numerator': pass_at_k,
                    'denominator': 1::double,
                    'reason': reason
                },
                {
                    'measure': 'ask_pct',
                    'numerator': case when n_trials > 0 then 100 * n_asking_trials end,
                    'denominator': n_trials,
                    'reason': ask_reason
                },
                {
                    'measure': 'questions_per_trial',
                    'numerator': case when n_trials > 0 then n_questions end,
                    'denominator': n_trials,
                    'reason': ask_reason
                },
                {
                    'measure': 'pass_at_k_difference',
                    'numerator': difference,
                    'denominator': 1,
                    'reason': pair_reason
                }
            ]
        ) as unit
    from paired
)

select
    'over_asking' as table_name,
    benchmark,
    agent,
    agent as own_agent,
    'all' as group_name,
    'all' as subgroup_name,
    'full_ask_user' as condition,
    unit.measure,
    unit_id,
    unit.numerator::double as numerator,
    unit.denominator::double as denominator,
    is_binary and unit.measure = 'pass_at_k' as is_binary,
    unit.reason,
    n_trials
    + case when unit.measure = 'pass_at_k_difference' then n_unasked_trials else 0 end
        as n_trials,
    n_missing
    + case when unit.measure = 'pass_at_k_difference' then n_unasked_missing else 0 end
        as n_missing,
    cluster_index,
    cluster_count
from measured
where is_asked or unit.measure = 'pass_at_k_difference'
