-- view: arm_cautions
-- grain: benchmark, agent, kind
-- inputs: int_attempt_arms, int_attempts, int_cells, int_exchange_readings,
--     int_questions_placed, int_trials_evaluated, stg_models_called,
--     stg_models_failed, stg_models_responded, stg_questions_answered,
--     stg_questions_asked, stg_trials_failed, trial_endings
-- outputs:
--   benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat
--   kind varchar: no_tool_called, calls_in_text, redacted_tools, split_replies,
--       cut_replies, refused, overflowed, identical_trials, nothing_revealed,
--       echoed_questions, failed_asking, hung_up, missing_unequally or
--       missing_in_hard_tasks
--   n bigint: cases of the kind
--   n_all bigint: cases that could be of the kind
-- equation: no_tool_called, calls_in_text and redacted_tools: trials; cut_replies and
--     split_replies: replies; refused and overflowed: trials with this ending;
--     identical_trials: cells of at least two trials with the same tool calls in all
--     trials; nothing_revealed: questions about an underspecified prompt, if no answer
--     revealed anything; echoed_questions: answers that repeat the question, compared
--     by letters and digits only; failed_asking: failed trials whose last text asks the
--     user, over the conditions in which most failed trials do; hung_up: attempts whose
--     program left its last model call before the reply, or that failed because the
--     program never got a reply; missing_unequally: planned trials of underspecified
--     and of a condition with a different missing share, by sign flips of tasks, p <
--     0.05 / number of conditions; missing_in_hard_tasks: planned trials, if tau-b of a
--     task's missing share and success is below 0 with p < 0.05
-- source: docs/metrics.md 1, endings and hang-ups, 3, question quality, and 5, missing
--     trials
-- notes: only kinds that occur have rows, and only the valid trials that the tables use
--     are counted. An answer is an echo if the answer contains the question or the
--     question contains the answer, and their lengths differ by at most a fifth. Trials
--     with unknown actions are left out of no_tool_called and identical_trials, and
--     answers of unknown content are left out of the other kinds. hung_up counts all
--     attempts that ended, even missing ones, but not attempts that were cut short
--     because the run stopped.
with trials as (
    select
        used.trial_id,
        used.benchmark,
        used.agent,
        used.action_count is not null as has_known_actions,
        used.condition,
        used.is_success,
        concat_ws(
            '|', used.condition, used.task_id, used.variant_id, used.settings_digest
        ) as cell_id,
        endings.*
    from int_trials_evaluated as used
    inner join trial_endings as endings on used.trial_id = endings.trial_id
),

redacted as (
    select distinct stream_id
    from stg_models_called
    where
        role = 'agent'
        and contains(
            json_extract_string(tools_json, '$[*].name')::varchar, '[redacted]'
        )
),

cells as (
    select
        benchmark,
        agent,
        cell_id,
        count(distinct actions_digest) = 1 as is_identical
    from trials
    where has_known_actions
    group by benchmark, agent, cell_id
    having count(*) > 1 and min(n_tool_calls) > 0
),

answers as (
    select
        trials.benchmark,
        trials.agent,
        case
            when trials.condition not in ('full', 'full_ask_user') then judged.gives
        end as revealed,
        regexp_replace(lower(asked.question), '[^\pL\pN]+', '', 'g') as question,
        regexp_replace(lower(answered.answer), '[^\pL\pN]+', '', 'g') as answer
    from int_questions_placed as placed
    inner join trials on placed.stream_id = trials.stream_id
    inner join stg_questions_asked as asked
        on
            placed.stream_id = asked.stream_id
            and placed.sequence = asked.sequence
    inner join stg_questions_answered as answered
        on
            placed.stream_id = answered.stream_id
            and placed.question_id = answered.question_id
    inner join int_exchange_readings as judged
        on
            placed.stream_id = judged.stream_id
            and placed.question_id = judged.question_id
            and judged.is_chosen
),

failures as (
    select
        benchmark,
        agent,
        count(*) filter (where asks in ('question', 'permission')) as n_asking,
        count(*) as n_failed
    from trials
    where not is_success
    group by benchmark, agent, condition
    having n_asking > 0.5 * n_failed
),

calls as (
    select
        stream_id,
        sequence,
        error_kind
    from stg_models_failed
    where role = 'agent'
    union all
    select
        stream_id,
        sequence,
        '' as error_kind
    from stg_models_responded
    where role = 'agent'
),

last_calls as (
    select
        stream_id,
        arg_max(error_kind, sequence) as error_kind
    from calls
    group by stream_id
),

attempts as (
    select
        attempts.benchmark,
        arms.agent,
        coalesce(
            failed.error_kind in ('client_gone', 'hung_up', 'program_no_call'),
            last_calls.error_kind = 'hung_up',
            false
        ) as is_hung_up
    from int_attempts as attempts
    inner join int_attempt_arms as arms on attempts.stream_id = arms.stream_id
    left join stg_trials_failed as failed on attempts.stream_id = failed.stream_id
    left join last_calls on attempts.stream_id = last_calls.stream_id
    where
        arms.is_chosen
        and attempts.attempt_state in ('valid', 'ungraded', 'failed')
        and coalesce(failed.error_kind <> 'interrupted', true)
        and (
            getvariable('experiment') is null
            or attempts.experiment_id = getvariable('experiment')
        )
),

planned as (
    select
        benchmark,
        agent,
        condition,
        cluster_id,
        sum(n_planned) as n_planned,
        sum(n_missing) as n_missing,
        sum(n_missing) / sum(n_planned) as missing_share,
        sum(n_success) / nullif(sum(n_trials), 0) as success
    from int_cells
    where
        not is_of_task
        and (unit_kind = 'variant' or condition in ('full', 'full_ask_user'))
    group by benchmark, agent, condition, cluster_id
    qualify sum(sum(n_missing)) over (partition by benchmark, agent) > 0
),

unequal as (
    select
        planned.benchmark,
        planned.agent,
        sum(planned.n_missing + bases.n_missing)::bigint as n,
        sum(planned.n_planned + bases.n_planned)::bigint as n_all,
        unit_estimate(
            'gain',
            planned.missing_share - bases.missing_share,
            1,
            null,
            planned.cluster_id
        ).p_value as p_value,
        count(*) over (partition by planned.benchmark, planned.agent) as n_conditions
    from planned
    inner join planned as bases
        on
            planned.benchmark = bases.benchmark
            and planned.agent = bases.agent
            and planned.cluster_id = bases.cluster_id
            and bases.condition = 'underspecified'
    where planned.condition <> 'underspecified'
    group by planned.benchmark, planned.agent, planned.condition
),

by_task as (
    select
        benchmark,
        agent,
        cluster_id,
        sum(n_planned) as n_planned,
        sum(n_missing) as n_missing,
        sum(n_missing) / sum(n_planned) as missing_share,
        avg(success) as success
    from planned
    group by benchmark, agent, cluster_id
),

hard as (
    select
        benchmark,
        agent,
        sum(n_missing)::bigint as n,
        sum(n_planned)::bigint as n_all,
        rank_agreement(
            list(missing_share order by cluster_id) filter (where success is not null),
            list(success order by cluster_id) filter (where success is not null)
        ) as agreement
    from by_task
    group by benchmark, agent
),

counted as (
    select
        benchmark,
        agent,
        unnest(
            [
                {
                    'kind': 'no_tool_called',
                    'n': count(*) filter (where has_known_actions and n_tool_calls = 0),
                    'n_all': count(*) filter (where has_known_actions)
                },
                {
                    'kind': 'calls_in_text',
                    'n': count(*) filter (where n_calls_in_text > 0),
                    'n_all': count(*)
                },
                {
                    'kind': 'redacted_tools',
                    'n': count(*) filter (
                        where stream_id in (select redacted.stream_id from redacted)
                    ),
                    'n_all': count(*)
                },
                {
                    'kind': 'split_replies',
                    'n': sum(n_split_replies)::bigint,
                    'n_all': sum(n_replies)::bigint
                },
                {
                    'kind': 'cut_replies',
                    'n': sum(n_cut_replies)::bigint,
                    'n_all': sum(n_replies)::bigint
                },
                {
                    'kind': 'refused',
                    'n': count(*) filter (where ended_by = 'refused'),
                    'n_all': count(*)
                },
                {
                    'kind': 'overflowed',
                    'n': count(*) filter (where ended_by = 'context_limit'),
                    'n_all': count(*)
                }
            ]
        ) as counted
    from trials
    group by benchmark, agent
    union all
    select
        benchmark,
        agent,
        {
            'kind': 'identical_trials',
            'n': count(*) filter (where is_identical),
            'n_all': count(*)
        } as counted
    from cells
    group by benchmark, agent
    union all
    select
        benchmark,
        agent,
        unnest(
            [
                {
                    'kind': 'nothing_revealed',
                    'n': if(max(len(revealed)) = 0, count(revealed), 0),
                    'n_all': count(revealed)
                },
                {
                    'kind': 'echoed_questions',
                    'n': count(*) filter (
                        where
                        len(answer) between 0.8 * len(question) and 1.2 * len(question)
                        and (contains(answer, question) or contains(question, answer))
                        and question <> ''
                    ),
                    'n_all': count(answer)
                }
            ]
        ) as counted
    from answers
    group by benchmark, agent
    union all
    select
        benchmark,
        agent,
        {
            'kind': 'failed_asking',
            'n': sum(n_asking)::bigint,
            'n_all': sum(n_failed)::bigint
        } as counted
    from failures
    group by benchmark, agent
    union all
    select
        benchmark,
        agent,
        {
            'kind': 'hung_up',
            'n': count(*) filter (where is_hung_up),
            'n_all': count(*)
        } as counted
    from attempts
    group by benchmark, agent
    union all
    select
        benchmark,
        agent,
        {
            'kind': 'missing_unequally',
            'n': max(n) filter (where p_value * n_conditions < 0.05),
            'n_all': arg_max(n_all, n) filter (where p_value * n_conditions < 0.05)
        } as counted
    from unequal
    group by benchmark, agent
    union all
    select
        benchmark,
        agent,
        { 'kind': 'missing_in_hard_tasks', 'n': n, 'n_all': n_all } as counted
    from hard
    where agreement.tau < 0 and agreement.p_value < 0.05
)

select
    benchmark,
    agent,
    counted.kind,
    counted.n,
    counted.n_all
from counted
where counted.n > 0
