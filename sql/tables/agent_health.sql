-- view: agent_health
-- grain: benchmark, agent, measure
-- inputs: int_task_clusters, int_trials, int_trials_screened, questions,
--     stg_actions_finished, stg_anchors_lost, stg_models_called, stg_trials_flagged,
--     trial_endings
-- outputs:
--   benchmark, agent, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing, method, reason
-- equation: side_pct = 100 * side calls / calls; sub_agent_pct likewise; questions
--     without a user: prose_endings = trials that end with a question in prose, and
--     dead_tool_calls = calls of asking tools that nobody answers
-- source: docs/metrics.md 1, flags; docs/gateway.md; parameter `experiment`
-- notes: the valid trials of every role are counted, even flagged ones. A call is a
--     request of the agent to its model. The native agent has only one thread, so only
--     its trials and calls are above 0. met_* count the agent's actions that reached a
--     limit; if a limit is reached outside of the agent's part, the trial is missing.
--     The units of met_* are the trials with an action for which the limit was watched.
--     If there are none, the value is null (limit_not_watched): so for programs,
--     imports and machines without control groups. Counts have no interval (reason
--     count), and shares without a call are null (no_calls). unanswered_questions were
--     cut off, or had no available user; a user who declines or is late was available.
--     n_missing counts trials that were started.
with trials as (
    select
        measured.benchmark,
        measured.agent,
        measured.stream_id,
        measured.trial_state,
        coalesce(not measured.is_injected, false) as is_skipped,
        clusters.cluster_id
    from int_trials as measured
    inner join int_task_clusters as clusters
        on
            measured.benchmark = clusters.benchmark
            and measured.task_id = clusters.task_id
    inner join int_trials_screened as screened
        on measured.trial_id = screened.trial_id
    where screened.exclusion is distinct from 'other_experiment'
),

calls as (
    select
        stream_id,
        count(*) as n_calls,
        count(*) filter (where call_kind = 'side') as n_side,
        count(*) filter (where call_kind = 'sub_agent') as n_sub_agent,
        count(*) filter (where thread_change = 'compacted') as n_compacted,
        count(*) filter (where thread_change = 'restarted') as n_restarted,
        count(*) filter (where thread_change = 'promoted') as n_promoted
    from stg_models_called
    where role = 'agent'
    group by stream_id
),

lost as (
    select
        stream_id,
        count(*) as n_lost
    from stg_anchors_lost
    group by stream_id
),

watched as (
    select
        stream_id,
        limit_met,
        unnest(limits_watched) as limit_watched
    from stg_actions_finished
),

met as (
    select
        trials.benchmark,
        trials.agent,
        'met_' || watched.limit_watched as measure,
        count(distinct watched.stream_id) as n_watched,
        count(*) filter (
            where watched.limit_met = watched.limit_watched
        ) as n_met
    from watched
    inner join trials on watched.stream_id = trials.stream_id
    group by trials.benchmark, trials.agent, watched.limit_watched
),

flags as (
    select
        stream_id,
        bool_or(flag = 'no_main_thread') as is_without_main,
        bool_or(flag = 'actions_uncounted') as is_uncounted,
        bool_or(flag = 'injection_lost') as is_lost,
        bool_or(flag = 'asking_unanswered') as is_unanswered,
        sum(
            list_sum(
                regexp_extract_all(detail, 'called (\d+) times', 1)::bigint[]
            )
        ) filter (where flag = 'asking_unanswered') as n_dead_calls
    from stg_trials_flagged
    group by stream_id
),

unheard as (
    select
        stream_id,
        count(*) as n_unheard
    from questions
    where coalesce(response_state, 'unavailable') = 'unavailable'
    group by stream_id
),

summed as (
    select
        trials.benchmark,
        trials.agent,
        count(distinct trials.cluster_id) filter (
            where trials.stream_id is not null
        ) as n_clusters,
        count(trials.stream_id) as n_trials,
        count(*) filter (where trials.trial_state = 'missing') as n_missing,
        count(flags.stream_id) as n_flagged,
        count(*) filter (where flags.is_without_main) as n_without_main,
        count(*) filter (where flags.is_uncounted) as n_uncounted,
        count(*) filter (where flags.is_lost) as n_injections_lost,
        count(*) filter (where flags.is_unanswered) as n_unanswered,
        coalesce(sum(flags.n_dead_calls), 0) as n_dead_calls,
        count(*) filter (
            where endings.asks in ('question', 'permission')
        ) as n_prose_endings,
        coalesce(sum(unheard.n_unheard), 0) as n_unheard,
        count(*) filter (where trials.is_skipped) as n_skipped,
        coalesce(sum(calls.n_calls), 0) as n_calls,
        sum(calls.n_side) as n_side,
        sum(calls.n_sub_agent) as n_sub_agent,
        coalesce(sum(calls.n_compacted), 0) as n_compacted,
        coalesce(sum(calls.n_restarted), 0) as n_restarted,
        coalesce(sum(calls.n_promoted), 0) as n_promoted,
        coalesce(sum(lost.n_lost), 0) as n_anchors_lost
    from trials
    left join calls on trials.stream_id = calls.stream_id
    left join lost on trials.stream_id = lost.stream_id
    left join flags on trials.stream_id = flags.stream_id
    left join trial_endings as endings on trials.stream_id = endings.stream_id
    left join unheard on trials.stream_id = unheard.stream_id
    group by trials.benchmark, trials.agent
),

measured as (
    select
        benchmark,
        agent,
        n_clusters,
        n_trials,
        n_missing,
        unnest(
            [
                { 'measure': 'flagged_trials', 'value': n_flagged },
                { 'measure': 'no_main_thread', 'value': n_without_main },
                { 'measure': 'actions_uncounted', 'value': n_uncounted },
                { 'measure': 'injection_lost', 'value': n_injections_lost },
                { 'measure': 'asking_unanswered', 'value': n_unanswered },
                { 'measure': 'dead_tool_calls', 'value': n_dead_calls },
                { 'measure': 'prose_endings', 'value': n_prose_endings },
                { 'measure': 'unanswered_questions', 'value': n_unheard },
                { 'measure': 'skipped_injections', 'value': n_skipped },
                { 'measure': 'calls', 'value': n_calls },
                {
                    'measure': 'side_pct',
                    'value': 100.0 * n_side / nullif(n_calls, 0)
                },
                {
                    'measure': 'sub_agent_pct',
                    'value': 100.0 * n_sub_agent / nullif(n_calls, 0)
                },
                { 'measure': 'compactions', 'value': n_compacted },
                { 'measure': 'restarts', 'value': n_restarted },
                { 'measure': 'promoted_threads', 'value': n_promoted },
                { 'measure': 'lost_anchors', 'value': n_anchors_lost },
                { 'measure': 'met_command_seconds', 'value': null },
                { 'measure': 'met_memory_mb', 'value': null },
                { 'measure': 'met_processes', 'value': null },
                { 'measure': 'met_file_mb', 'value': null }
            ]
        ) as counted
    from summed
)

select
    measured.benchmark,
    measured.agent,
    measured.counted.measure,
    coalesce(met.n_met, measured.counted.value)::double as value,
    null::double as low,
    null::double as high,
    case
        when measured.counted.measure like 'met_%' then coalesce(met.n_watched, 0)
        else measured.n_trials
    end as n_units,
    measured.n_trials - n_units as n_dropped,
    measured.n_clusters,
    measured.n_trials,
    measured.n_missing,
    null::varchar as method,
    case
        when value is not null then 'count'
        when measured.counted.measure like 'met_%' then 'limit_not_watched'
        else 'no_calls'
    end as reason
from measured
left join met
    on
        measured.benchmark = met.benchmark
        and measured.agent = met.agent
        and measured.counted.measure = met.measure
