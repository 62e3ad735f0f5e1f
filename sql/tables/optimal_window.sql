-- view: optimal_window
-- grain: benchmark, dimension, agent, measure
-- inputs: int_pools, int_trials_evaluated, int_variant_dimensions, int_voi_units,
--     pass_at_k
-- outputs:
--   benchmark varchar: name of the benchmark; all pools several
--   dimension, agent, measure
--   value double: see the equation
--   low, high, n_units, n_dropped, n_clusters, n_trials, n_missing
--   reentry varchar: later percentages at or above the threshold
--   has_oracle_gap boolean: full exceeds underspecified over the units with both
--   method, reason
-- equation: window_threshold = value(the first injection) - window_pp / 100;
--     window_end_pct = last p of the unbroken run from there that is at or above the
--     threshold; ask_in_window_pct = 100 * first questions at or before the end / first
--     questions; for agent all, over agents within a task, then over tasks
-- source: docs/metrics.md 4, optimal window [Ask Early figure 5]; parameters
--     `ask_scale`, `confidence`, `flipped`, `per`, `pooled`, `timing_measure`,
--     `voi_cases`, `window_pp`
-- notes: the curve is the curve of voi, and its first injection is the earliest one of
--     the benchmark. There is no window if the gain at the first injection is not shown
--     (no_gain_shown: sign flips of tasks, Holm over the table), or if no later time is
--     shown to differ from it (flat_curve: joint flips over the later times, Holm over
--     the table). `flipped = units` leaves these tests out, as the papers do.
--     `ask_scale` places a first question at 100 * its action / B of its unit, which is
--     the scale of the injections, or at 100 * its action / actions of its own trial.
--     For an agent without injections, B is computed from its full trials; without full
--     trials, the place is unknown (no_budget). First questions are those of ask_user
--     trials on variants of the dimension. ask_in_window_pct compares them with the
--     agent's own window, ask_in_pooled_window_pct with the window of agent all. The
--     end is one of few percentages (one_of_few), so its uncertainty is shown by the
--     intervals of voi. The threshold has the shifted interval of the first injection.
--     If the value at the first injection is below `window_pp`, the threshold is below
--     0 and every timing is in the window. Without that value there is no window
--     (no_window). The arm of a simulator has the window of the agent's injected trials
--     with the same settings, because these trials have no simulator. Several injection
--     templates give several windows (several_windows).
with curve_units as (
    select
        int_pools.pool as benchmark,
        dimensions.dimension,
        gains.agent as own_agent,
        unnest([gains.agent, 'all']) as agent,
        concat_ws('|', gains.benchmark, gains.task_id) as task_key,
        gains.inject_percent,
        gains.cluster_id,
        gains.cell_id,
        gains.unit_value,
        gains.inject_percent
        = min(gains.inject_percent) over (partition by gains.benchmark) as is_first,
        gains.unit_value - first_value(gains.unit_value) over (
            partition by
                int_pools.pool, dimensions.dimension, dimensions.position, gains.unit_id
            order by gains.inject_percent nulls last
        ) as change,
        gains.gain,
        gains.gain_reason as reason,
        gains.n_trials,
        gains.n_missing
    from int_voi_units as gains
    inner join int_pools
        on gains.benchmark = int_pools.benchmark and not int_pools.is_single
    inner join int_variant_dimensions as dimensions
        on gains.variant_digest = dimensions.variant_digest
    where
        gains.measure = getvariable('timing_measure')
        and gains.condition <> 'underspecified'
),

weighted as (
    select
        *,
        agent_weight(
            agent,
            own_agent,
            task_key,
            unit_value,
            row(benchmark, dimension, agent, inject_percent)
        ) as weight,
        agent_weight(
            agent,
            own_agent,
            task_key,
            gain,
            row(benchmark, dimension, agent, inject_percent)
        ) as gain_weight,
        agent_weight(
            agent,
            own_agent,
            task_key,
            change,
            row(benchmark, dimension, agent, inject_percent)
        ) as change_weight
    from curve_units
),

tested as (
    select
        benchmark,
        dimension,
        agent,
        unit_estimate(
            'gain',
            case when is_first then gain_weight * gain end,
            gain_weight,
            null,
            cluster_id
        ) as worth,
        list_min(
            list_transform(
                family_test(
                    list(
                        {
                            'member': inject_percent,
                            'cluster': hash(cluster_id),
                            'above': change_weight * change,
                            'below': change_weight,
                            'base': null::double,
                            'n_base': null::double,
                            'n_own': null::double,
                            'is_one_sided': 0.0::double,
                            'lead': 0.0::double
                        }
                    ) filter (where not is_first and change is not null)
                ),
                lambda timing: timing.number
            )
        ) as p_changes
    from weighted
    group by benchmark, dimension, agent
),

claimed as (
    select
        benchmark,
        dimension,
        agent,
        case
            when getvariable('flipped') = 'units' or worth.value is null then null
            when
                worth.value <= 0
                or holm(worth.p_value, list(worth.p_value) over ())
                >= round(1 - getvariable('confidence'), 12)
                then 'no_gain_shown'
            when
                coalesce(holm(p_changes, list(p_changes) over ()), 1)
                >= round(1 - getvariable('confidence'), 12)
                then 'flat_curve'
        end as open_reason
    from tested
),

gaps as (
    select
        benchmark,
        dimension,
        agent,
        round(sum(gain_weight * gain) / sum(gain_weight), 6) > 0 as has_oracle_gap
    from weighted
    where inject_percent is null
    group by benchmark, dimension, agent
),

means as (
    select
        benchmark,
        dimension,
        agent,
        inject_percent,
        unit_estimate(
            'level', weight * unit_value, weight, min(reason), cluster_id
        ) as estimate,
        sum_once(cell_id, case when unit_value is not null then n_trials end)
            as n_trials,
        sum_once(cell_id, n_missing) as n_missing
    from weighted
    where inject_percent is not null
    group by benchmark, dimension, agent, inject_percent
),

starts as (
    select
        *,
        estimate.value - getvariable('window_pp') / 100 as threshold
    from means
    qualify
        inject_percent
        = min(inject_percent) over (partition by benchmark, dimension, agent)
),

points as (
    select
        means.benchmark,
        means.dimension,
        means.agent,
        means.inject_percent,
        coalesce(means.estimate.value >= round(starts.threshold, 6), false)
            as is_within
    from means
    inner join starts
        on
            means.benchmark = starts.benchmark
            and means.dimension = starts.dimension
            and means.agent = starts.agent
),

ends as (
    select
        benchmark,
        dimension,
        agent,
        min(inject_percent) filter (where not is_within) as first_outside
    from points
    group by benchmark, dimension, agent
),

windows as (
    select
        points.benchmark,
        points.dimension,
        points.agent,
        max(points.inject_percent) filter (
            where points.inject_percent < coalesce(ends.first_outside, 100)
        ) as window_end,
        string_agg(points.inject_percent::varchar, ', ' order by points.inject_percent)
        filter (
            where points.is_within and points.inject_percent > ends.first_outside
        ) as reentry
    from points
    inner join ends
        on
            points.benchmark = ends.benchmark
            and points.dimension = ends.dimension
            and points.agent = ends.agent
    group by points.benchmark, points.dimension, points.agent
),

curves as (
    select
        starts.benchmark,
        starts.dimension,
        starts.agent,
        starts.estimate,
        starts.threshold,
        starts.n_trials,
        starts.n_missing,
        case when claimed.open_reason is null then windows.window_end end as window_end,
        case when claimed.open_reason is null then windows.reentry end as reentry,
        claimed.open_reason,
        gaps.has_oracle_gap
    from starts
    inner join windows
        on
            starts.benchmark = windows.benchmark
            and starts.dimension = windows.dimension
            and starts.agent = windows.agent
    inner join gaps
        on
            starts.benchmark = gaps.benchmark
            and starts.dimension = gaps.dimension
            and starts.agent = gaps.agent
    inner join claimed
        on
            starts.benchmark = claimed.benchmark
            and starts.dimension = claimed.dimension
            and starts.agent = claimed.agent
),

members as (
    select
        benchmark,
        agent,
        agent_digest,
        settings_digest,
        bool_or(inject_percent is not null) as is_injected
    from int_trials_evaluated
    group by benchmark, agent, agent_digest, settings_digest
),

window_agents as (
    select
        members.benchmark,
        members.agent,
        case
            when bool_or(others.agent = members.agent) then members.agent
            when count(others.agent) = 1 then any_value(others.agent)
        end as window_agent,
        count(others.agent) as n_windows
    from members
    left join members as others
        on
            members.benchmark = others.benchmark
            and members.agent_digest = others.agent_digest
            and members.settings_digest = others.settings_digest
            and others.is_injected
    group by members.benchmark, members.agent
),

asking_cells as (
    select
        int_pools.pool as benchmark,
        dimensions.dimension,
        dimensions.position,
        unnest([cells.agent, 'all']) as agent,
        cells.benchmark as own_benchmark,
        cells.agent as own_agent,
        window_agents.window_agent,
        window_agents.n_windows,
        cells.unit_id as variant_id,
        concat_ws('|', cells.benchmark, cells.task_id) as task_key,
        cells.cluster_id,
        concat_ws('|', cells.benchmark, cells.agent, cells.unit_id) as cell_id,
        cells.n_missing
    from pass_at_k as cells
    inner join int_pools
        on cells.benchmark = int_pools.benchmark and not int_pools.is_single
    inner join int_variant_dimensions as dimensions
        on cells.variant_digest = dimensions.variant_digest
    inner join window_agents
        on
            cells.benchmark = window_agents.benchmark
            and cells.agent = window_agents.agent
    where cells.unit_kind = 'variant' and cells.condition = 'ask_user'
),

oracle_units as (
    select
        benchmark,
        agent_digest,
        settings_digest,
        oracle_scope,
        case oracle_scope when 'task' then task_id else variant_id end as unit_id,
        max(budget_actions) as recorded_budget,
        list(action_count) filter (where condition = 'full' and is_measured) as counts,
        count(*) filter (where condition = 'full' and is_measured) as n_full
    from int_trials_evaluated
    group by benchmark, agent_digest, settings_digest, oracle_scope, unit_id
),

budgets as (
    select
        * exclude (recorded_budget, counts, n_full),
        coalesce(
            recorded_budget,
            case
                when list_count(counts) = n_full
                    then (2 * list_sum(counts)::bigint + n_full) // (2 * n_full)
            end
        ) as budget_actions
    from oracle_units
),

questions as (
    select
        cells.benchmark,
        cells.dimension,
        cells.agent,
        cells.own_agent,
        cells.window_agent,
        cells.n_windows,
        cells.task_key,
        cells.cluster_id,
        cells.cell_id,
        cells.n_missing,
        trials.trial_id,
        case getvariable('ask_scale')
            when 'own_length' then trials.first_ask_pct
            else 100.0 * trials.first_ask_action / budgets.budget_actions
        end as first_ask_pct,
        if(
            trials.first_ask_action is null or getvariable('ask_scale') = 'own_length',
            'unknown_action',
            'no_budget'
        ) as ask_reason
    from asking_cells as cells
    left join int_trials_evaluated as trials
        on
            cells.own_benchmark = trials.benchmark
            and cells.own_agent = trials.agent
            and cells.variant_id = trials.variant_id
            and trials.condition = 'ask_user'
            and trials.is_measured
            and (trials.question_count > 0 or trials.question_count is null)
    left join budgets
        on
            trials.benchmark = budgets.benchmark
            and trials.agent_digest = budgets.agent_digest
            and trials.settings_digest = budgets.settings_digest
            and trials.oracle_scope = budgets.oracle_scope
            and budgets.unit_id = case trials.oracle_scope
                when 'task' then trials.task_id
                else trials.variant_id
            end
),

held as (
    select
        questions.benchmark,
        questions.dimension,
        questions.agent,
        questions.own_agent,
        questions.n_windows,
        questions.task_key,
        questions.cell_id,
        questions.cluster_id,
        questions.n_missing,
        questions.trial_id,
        questions.first_ask_pct,
        questions.ask_reason,
        unnest(
            case
                when questions.agent = 'all'
                    then [{ 'measure': 'ask_in_window_pct', 'whose': 'all' }]
                else [
                    { 'measure': 'ask_in_window_pct', 'whose': questions.window_agent },
                    { 'measure': 'ask_in_pooled_window_pct', 'whose': 'all' }
                ]
            end
        ) as against
    from questions
),

judged as (
    select
        held.*,
        held.against.measure,
        held.first_ask_pct <= curves.window_end as is_in_window,
        curves.window_end,
        curves.open_reason,
        curves.reentry,
        curves.has_oracle_gap
    from held
    left join curves
        on
            held.benchmark = curves.benchmark
            and held.dimension = curves.dimension
            and held.against.whose = curves.agent
),

weighted_asks as (
    select
        *,
        agent_weight(
            agent,
            own_agent,
            task_key,
            is_in_window,
            row(benchmark, dimension, agent, measure)
        ) as weight
    from judged
),

asks as (
    select
        benchmark,
        dimension,
        agent,
        measure,
        any_value(reentry) as reentry,
        any_value(has_oracle_gap) as has_oracle_gap,
        count(trial_id) as n_asking,
        sum_once(cell_id, n_missing) as n_missing,
        percent_estimate(
            weight * is_in_window::integer, weight, null, cluster_id
        ) as estimate,
        count(distinct cell_id) filter (where is_in_window is not null) as n_units,
        count(distinct trial_id) filter (where is_in_window is not null) as n_trials,
        any_value(window_end) as window_end,
        any_value(open_reason) as open_reason,
        min(ask_reason) filter (where trial_id is not null) as ask_reason,
        max(n_windows) filter (where agent <> 'all') as n_windows
    from weighted_asks
    group by benchmark, dimension, agent, measure
),

curve_rows as (
    select
        *,
        unnest(
            [
                {
                    'measure': 'window_threshold',
                    'value': threshold,
                    'low': estimate.low - getvariable('window_pp') / 100,
                    'high': estimate.high - getvariable('window_pp') / 100,
                    'method': estimate.method,
                    'reason': estimate.reason
                },
                {
                    'measure': 'window_end_pct',
                    'value': window_end::double,
                    'low': null,
                    'high': null,
                    'method': null,
                    'reason': case
                        when window_end is not null then 'one_of_few'
                        else coalesce(open_reason, 'no_window')
                    end
                }
            ]
        ) as shown
    from curves
)

select
    benchmark,
    dimension,
    agent,
    shown.measure,
    round(shown.value, 6) as value,
    round(shown.low, 6) as low,
    round(shown.high, 6) as high,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    n_trials,
    n_missing,
    reentry,
    has_oracle_gap,
    shown.method,
    shown.reason
from curve_rows
union all
select
    benchmark,
    dimension,
    agent,
    measure,
    estimate.value,
    estimate.low,
    estimate.high,
    n_units,
    n_asking - estimate.n_units as n_dropped,
    estimate.n_clusters,
    n_trials,
    n_missing,
    reentry,
    has_oracle_gap,
    estimate.method,
    case
        when estimate.value is not null then estimate.reason
        when n_asking = 0 then 'nobody_asked'
        when window_end is null and measure = 'ask_in_window_pct' and n_windows > 1
            then 'several_windows'
        when window_end is null then coalesce(open_reason, 'no_window')
        else ask_reason
    end as reason
from asks
