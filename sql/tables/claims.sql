-- view: claims
-- grain: success, benchmark, dimension, agent, condition, measure
-- inputs: int_looks, int_paired_values, int_variant_dimensions, int_voi_units,
--     unit_values
-- outputs:
--   success varchar: the measure of success: pass_at_1, pass_at_k or
--       checkpoint_progress
--   benchmark varchar: name of the benchmark; all (pooled) for timings
--   dimension varchar: for timings goal, constraint, input or context; else all
--   agent, condition, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing, method, reason
--   n_family bigint: tested claims about this success
--   p_value double: test of a mean difference of 0, uncorrected, two-sided; for timings
--       one-sided
--   p_family double: corrected over all that findings can claim about this success
--   is_shown boolean: p_family is below 1 - confidence, and below the level of the
--       last look of a study that stops when a gain is shown
-- equation: p_family = p of the step-down test over all claims about this success, and
--     at least p_value; for a timing, the largest p up to this timing
-- source: docs/metrics.md 5, sentences; parameters `confidence`, `permutations`,
--     `pooled`, `timing_measure`
-- notes: the rows are all differences that findings may claim: gains of asking, losses,
--     the effect of asking under the full prompt, and the gains of messages by
--     dimension and time. The signs of whole tasks are flipped jointly in all claims.
--     An offset, chosen by simulation, is added to t: 1.25 for gains of asking, 0.9 for
--     losses of underspecified, 0.8 for gains of messages. Timings pool agents and
--     benchmarks, use timing_measure for every success, and are tested one-sided.
--     Information helps up to a time only if it also helps at all earlier times.
with paired as (
    select
        'loss' as kind,
        measure as success,
        benchmark,
        'all' as dimension,
        agent,
        condition,
        base_numerator - numerator as difference,
        1.0::double as weight,
        base_numerator as base,
        n_base_trials / if(measure = 'pass_at_k', getvariable('k'), 1) as n_base,
        n_trials / if(measure = 'pass_at_k', getvariable('k'), 1) as n_own,
        pair_reason as reason,
        cluster_id,
        cell_id,
        n_trials,
        n_missing,
        base_cell_id,
        n_base_trials,
        n_base_missing
    from int_paired_values
    where
        base_condition = 'full'
        and measure in ('pass_at_1', 'pass_at_k', 'checkpoint_progress')
    qualify
        bool_or(has_base) over (partition by benchmark, agent)
        and (
            condition in ('underspecified', 'ask_user')
            or condition = max(
                case when condition like 'inject\_%' escape '\' then condition end
            ) over (partition by benchmark)
        )
),

gains as (
    select
        'gain' as kind,
        replace(measure, '_gain', '') as success,
        benchmark,
        'all' as dimension,
        agent,
        'ask_user' as condition,
        numerator as difference,
        1.0::double as weight,
        reason,
        cluster_id,
        cell_id,
        n_trials,
        n_missing
    from unit_values
    where
        measure in ('pass_at_1_gain', 'pass_at_k_gain', 'checkpoint_progress_gain')
),

channels as (
    select
        'difference' as kind,
        measure as success,
        benchmark,
        'all' as dimension,
        agent,
        'full_ask_user' as condition,
        any_value(numerator) filter (where condition = 'full_ask_user')
        - any_value(numerator) filter (where condition = 'full') as difference,
        1.0::double as weight,
        case
            when count(*) = 1 then 'one_arm_only'
            else min(reason)
        end as reason,
        any_value(cluster_id) as cluster_id,
        string_agg(cell_id, '|' order by cell_id) as cell_id,
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing
    from unit_values
    where
        unit_kind = 'task'
        and condition in ('full', 'full_ask_user')
        and measure in ('pass_at_1', 'pass_at_k')
    group by benchmark, agent, unit_id, measure
    qualify
        bool_or(bool_or(condition = 'full_ask_user')) over (
            partition by benchmark, agent
        )
),

dimensioned as (
    select
        int_voi_units.*,
        'all' as dimension
    from int_voi_units
    union all
    select
        int_voi_units.*,
        dimensions.dimension
    from int_voi_units
    inner join int_variant_dimensions as dimensions
        on int_voi_units.variant_digest = dimensions.variant_digest
),

timings as (
    select
        'injection_gain' as kind,
        'all' as benchmark,
        dimension,
        'all' as agent,
        condition,
        gain as difference,
        agent_weight(
            'all',
            agent,
            concat_ws('|', benchmark, task_id),
            gain,
            row(dimension, condition)
        ) as weight,
        gain_reason as reason,
        cluster_id,
        cell_id,
        n_trials,
        n_missing,
        unit_id as base_cell_id,
        n_baseline_trials as n_base_trials,
        n_baseline_missing as n_base_missing
    from dimensioned
    where measure = getvariable('timing_measure') and inject_percent is not null
),

units as (
    select * from paired
    union all by name
    select * from gains
    union all by name
    select * from channels
    union all by name
    select * from timings
),

placed as (
    select
        *,
        dense_rank() over (
            order by kind, success, benchmark, dimension, agent, condition
        ) as member
    from units
),

estimated as (
    select
        member,
        any_value(kind) as kind,
        any_value(benchmark) as benchmark,
        any_value(dimension) as dimension,
        any_value(agent) as agent,
        any_value(condition) as condition,
        shared_estimate(
            if(kind = 'loss', 'loss', 'gain'),
            weight * difference,
            weight,
            base,
            n_base,
            n_own,
            min(reason),
            cluster_id
        ) as estimate,
        sum_once(cell_id, case when difference is not null then n_trials end)
        + sum_once(
            base_cell_id, case when difference is not null then n_base_trials end
        ) as n_trials,
        sum_once(cell_id, n_missing) + sum_once(base_cell_id, n_base_missing)
            as n_missing
    from placed
    group by member
),

members as (
    select
        *,
        unnest(
            if(
                success is null,
                ['pass_at_1', 'pass_at_k', 'checkpoint_progress'],
                [success]
            )
        ) as of_success
    from placed
),

families as (
    select
        of_success as success,
        list(distinct member) as members,
        family_test(
            list(
                {
                    'member': member,
                    'cluster': hash(cluster_id),
                    'above': weight * difference,
                    'below': weight,
                    'base': base,
                    'n_base': n_base::double,
                    'n_own': n_own::double,
                    'is_one_sided': (kind = 'injection_gain')::integer::double,
                    'lead': case
                        when kind = 'gain' then 1.25
                        when kind = 'loss' and condition = 'underspecified' then 0.9
                        when kind = 'injection_gain' then 0.8
                        else 0.0
                    end::double
                }
            ) filter (where difference is not null)
        ) as found
    from members
    group by of_success
),

tested as (
    select
        families.success,
        members.member,
        list_filter(
            families.found, lambda claim: claim.member = members.member
        )[1].number as p_step,
        list_count(
            list_filter(families.found, lambda claim: claim.number is not null)
        ) as n_family
    from families
    cross join unnest(families.members) as members (member)
),

corrected as (
    select
        tested.success,
        tested.n_family,
        estimated.*,
        case
            when tested.p_step is null then null
            when estimated.kind <> 'injection_gain'
                then least(1, greatest(tested.p_step, estimated.estimate.p_value))
            when count(tested.p_step) over times = count(*) over times
                then least(
                    1,
                    max(greatest(tested.p_step, estimated.estimate.p_value)) over times
                )
        end as p_family
    from tested
    inner join estimated on tested.member = estimated.member
    window times as (
        partition by
            tested.success,
            estimated.kind,
            estimated.benchmark,
            estimated.dimension,
            estimated.agent
        order by estimated.condition
    )
)

select
    success,
    benchmark,
    dimension,
    agent,
    condition,
    if(kind = 'injection_gain', kind, success || '_' || kind) as measure,
    estimate.value,
    estimate.low,
    estimate.high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    n_trials,
    n_missing,
    estimate.method,
    estimate.reason,
    n_family,
    significant(estimate.p_value) as p_value,
    significant(p_family) as p_family,
    p_family < least(
        round(1 - getvariable('confidence'), 12),
        coalesce(
            (
                select min(looks.level)
                from int_looks as looks
                where looks.is_last
            ),
            1
        )
    ) as is_shown
from corrected
