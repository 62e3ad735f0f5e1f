-- view: int_flag_values
-- grain: stream_id, agent, category, measure
-- inputs: int_cells, int_trials_evaluated, question_flags
-- outputs:
--   stream_id, benchmark, agent, ambiguity_class
--   category varchar: failure mode, one of seven
--   measure varchar: any_flag, or one of the three flags of the category
--   is_success
--   unit_value double: 1 if the flag is raised, else 0
--   reason, cluster_id
--   n_missing_of_agent bigint: missing trials of the agent under ask_user
--   n_missing_of_class bigint: of these, those of variants of this class
-- equation: any_flag = at least one flag of the category is yes; a flag that does not
--     apply counts as not raised
-- source: docs/metrics.md 3 and 6, failure modes
-- notes: the values that the tables of failure modes average, from measured trials of
--     ask_user with questions. In a trial without a verdict, any_flag and the judged
--     flags are null (unjudged), even if a prerequisite is known to fail. Otherwise the
--     share would be over only the trials that cannot have the flag. If it is unknown
--     what an answer revealed (unknown_revealed), the computed flags that need this
--     fact are null, and so is any_flag of their categories. Missing trials are counted
--     with or without questions.
with flags as (
    select
        stream_id,
        category,
        flag,
        source,
        verdict,
        reason = 'unknown_revealed' and source = 'computed' as is_unknown,
        bool_or(judge is not null) over (partition by stream_id) as is_judged
    from question_flags
),

shares as (
    select
        stream_id,
        category,
        flag as measure,
        case
            when source = 'computed' or is_judged then (verdict = 'yes')::double
        end as unit_value,
        is_unknown
    from flags
    union all
    select
        stream_id,
        category,
        'any_flag' as measure,
        case
            when bool_and(is_judged and not is_unknown)
                then bool_or(verdict = 'yes')::double
        end as unit_value,
        bool_and(is_judged) and bool_or(is_unknown) as is_unknown
    from flags
    group by stream_id, category
),

cells as (
    select
        benchmark,
        agent,
        unit_id,
        cluster_id,
        sum(n_missing) over (partition by benchmark, agent)::bigint
            as n_missing_of_agent,
        sum(n_missing) over (partition by benchmark, agent, ambiguity_class)::bigint
            as n_missing_of_class
    from int_cells
    where unit_kind = 'variant' and condition = 'ask_user'
)

select
    shares.stream_id,
    trials.benchmark,
    trials.agent,
    trials.ambiguity_class,
    shares.category,
    shares.measure,
    trials.is_success,
    shares.unit_value,
    case
        when shares.unit_value is not null then null
        when shares.is_unknown then 'unknown_revealed'
        else 'unjudged'
    end as reason,
    cells.cluster_id,
    cells.n_missing_of_agent,
    cells.n_missing_of_class
from shares
inner join int_trials_evaluated as trials
    on shares.stream_id = trials.stream_id
inner join cells
    on
        trials.benchmark = cells.benchmark
        and trials.agent = cells.agent
        and trials.variant_id = cells.unit_id
where trials.condition = 'ask_user' and trials.is_measured
