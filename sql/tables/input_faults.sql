-- view: input_faults
-- grain: benchmark, fault, agent, condition, measure
-- inputs: int_question_ledger, int_trials_evaluated, int_variants,
--     stg_checkpoints_scored, unit_values
-- outputs:
--   benchmark
--   fault varchar: conflicting_instructions, stale_information, missing_authority,
--       underspecified_follow_up, or all
--   agent, condition, measure, value, low, high, n_units, n_dropped, n_clusters,
--   n_trials, n_missing, method, reason
-- equation: raised_pct = 100 * trials with a question about the fault / trials;
--     handled_pct = 100 * trials that showed the expected behaviour / trials
-- source: docs/metrics.md 3 and 6, input faults (ours)
-- notes: units are faulty requests, from which nothing is removed. A question is about
--     the fault if its answer revealed the segment on request; the segment of a
--     follow-up is revealed only after the follow-up was made. For
--     conflicting_instructions and underspecified_follow_up, the expected behaviour is
--     such a question. So a lucky guess does not count, and there is no handled_pct
--     without a user. For stale_information and missing_authority, the files show the
--     fault. So the expected behaviour is to reach all checkpoints that the segment
--     decides, and a question alone does not count. If the segment decides no
--     checkpoint, the rule for the first two faults applies. pass_at_1 and pass_at_k
--     measure whether the agent did what the user means. A request without a valid
--     trial is counted as dropped.
with requests as (
    select
        variant_digest,
        fault,
        flatten(
            list_transform(
                segments, lambda segment: coalesce(segment.checkpoint_refs, [])
            )
        ) as checkpoint_refs,
        fault in ('stale_information', 'missing_authority')
        and len(checkpoint_refs) > 0 as is_shown_by_files
    from int_variants
    where fault is not null
),

evaluated as (
    select
        trials.trial_id,
        trials.stream_id,
        trials.benchmark,
        trials.agent,
        trials.variant_id,
        trials.condition,
        requests.is_shown_by_files,
        requests.checkpoint_refs,
        ledger.requested_count
    from int_trials_evaluated as trials
    inner join requests
        on trials.variant_digest = requests.variant_digest
    left join int_question_ledger as ledger
        on trials.trial_id = ledger.trial_id
    where trials.prompt_state = 'faulty' and trials.is_measured
),

heeded as (
    select
        evaluated.trial_id,
        evaluated.agent,
        bool_and(scored.score >= scored.total) as is_heeded
    from evaluated
    inner join stg_checkpoints_scored as scored
        on
            evaluated.stream_id = scored.stream_id
            and list_contains(evaluated.checkpoint_refs, scored.checkpoint_id)
            and scored.is_primary
    group by evaluated.trial_id, evaluated.agent
),

behaved as (
    select
        evaluated.benchmark,
        evaluated.agent,
        evaluated.variant_id,
        evaluated.condition,
        count(*) filter (where evaluated.requested_count > 0) as n_raised,
        count(*) filter (
            where
            if(
                evaluated.is_shown_by_files,
                heeded.is_heeded,
                evaluated.requested_count > 0
            )
        ) as n_handled,
        bool_or(
            evaluated.condition = 'faulty_ask_user'
            and evaluated.requested_count is null
        ) as is_unknown
    from evaluated
    left join heeded
        on
            evaluated.trial_id = heeded.trial_id
            and evaluated.agent = heeded.agent
    group by
        evaluated.benchmark,
        evaluated.agent,
        evaluated.variant_id,
        evaluated.condition
),

cells as (
    select *
    from unit_values
    where
        unit_kind = 'variant'
        and condition in ('faulty', 'faulty_ask_user')
        and measure in ('pass_at_1', 'pass_at_k', 'ask_pct', 'questions_per_trial')
),

behaviour as (
    select
        cells.*,
        unnest(
            [
                {
                    'name': 'raised_pct',
                    'number': behaved.n_raised,
                    'is_unknown': behaved.is_unknown
                },
                {
                    'name': 'handled_pct',
                    'number': behaved.n_handled,
                    'is_unknown':
                    behaved.is_unknown and not requests.is_shown_by_files
                }
            ]
        ) as shown
    from cells
    inner join requests on cells.variant_digest = requests.variant_digest
    left join behaved
        on
            cells.benchmark = behaved.benchmark
            and cells.agent = behaved.agent
            and cells.unit_id = behaved.variant_id
            and cells.condition = behaved.condition
    where
        cells.measure = 'pass_at_1'
        and (cells.condition = 'faulty_ask_user' or requests.is_shown_by_files)
),

listed as (
    select * from cells
    union all by name
    select
        * exclude (shown)
        replace (
            shown.name as measure,
            case when not shown.is_unknown then 100 * shown.number end as numerator,
            n_trials as denominator,
            case
                when shown.is_unknown then 'unknown_revealed' else reason
            end as reason
        )
    from behaviour
    where shown.name = 'handled_pct' or condition = 'faulty_ask_user'
),

faults as (
    select
        listed.*,
        unnest(['all', requests.fault]) as fault
    from listed
    inner join requests on listed.variant_digest = requests.variant_digest
)

select
    benchmark,
    fault,
    agent,
    condition,
    measure,
    unnest(
        table_estimate(
            measure,
            numerator,
            denominator,
            reason,
            cluster_id,
            cell_id,
            n_trials,
            n_missing
        )
    )
from faults
group by benchmark, fault, agent, condition, measure
