-- view: late_answers
-- grain: benchmark, agent, condition, measure
-- inputs: int_question_targets, int_trials, int_trials_evaluated, questions,
--     unit_values, wasted_trials
-- outputs:
--   benchmark, agent
--   condition varchar: ask_user, or ask_user_NAME for another way of responding
--   measure, value, low, high, n_units, n_dropped, n_clusters, n_trials, n_missing,
--   method, reason
--   p_value double: test of a mean difference of 0, two-sided
--   p_holm double: the same, corrected within the measure
-- equation: asked_again_per_trial = questions for a segment that an earlier question
--     asked for / trials; guessed_segments_per_trial = segments asked for and never
--     given, in trials whose work was handed in / trials; actions_until_answer =
--     actions from a question to its answer / answers; ..._change = value(condition) -
--     value(ask_user) of the same variant
-- source: docs/metrics.md 4, what a late or missing answer costs (ours)
-- notes: the agents are those that ran a condition of [responses]; their trials of
--     ask_user are included. A variant without a value in one arm is dropped from the
--     difference (one_arm_only, or the reason of that arm). wasted_actions are the
--     actions of the whole trial that have no counterpart in `full` trials. An answer
--     in the result of its question counts as given after 0 actions, however late it
--     is. A Holm family consists of all benchmarks, agents and conditions of one
--     measure.
with trials as (
    select
        trial_id,
        stream_id,
        benchmark,
        agent,
        variant_id,
        condition,
        is_measured
    from int_trials_evaluated
    where condition = 'ask_user' or condition like 'ask\_user\_%' escape '\'
    qualify
        bool_or(condition <> 'ask_user') over (
            partition by benchmark, agent, variant_id
        )
),

targets as (
    select
        stream_id,
        question_id,
        segment_id,
        is_requested,
        is_given,
        sequence
        > min(sequence) filter (where is_requested) over (
            partition by stream_id, segment_id
        ) as is_later
    from int_question_targets
    where stream_id in (select trials.stream_id from trials)
),

segments as (
    select
        stream_id,
        segment_id,
        bool_or(is_requested) and not bool_or(is_given) as is_never_given
    from targets
    group by stream_id, segment_id
),

guesses as (
    select
        stream_id,
        count(*) filter (where is_never_given) as never_given_count
    from segments
    group by stream_id
),

asked as (
    select
        stream_id,
        bool_or(segment_id is null) as has_unknown,
        count(distinct question_id) filter (where is_requested and is_later)
            as asked_again_count
    from targets
    group by stream_id
),

answers as (
    select
        stream_id,
        count(*) as answer_count,
        sum(coalesce(answered_after_action - action_index, 0))::bigint
            as actions_until_answers
    from questions
    where
        response_state in ('answered', 'late')
        and stream_id in (select trials.stream_id from trials)
    group by stream_id
),

counted as (
    select
        trials.trial_id,
        trials.benchmark,
        trials.agent,
        trials.variant_id,
        trials.condition,
        wasted.wasted_actions,
        wasted.reason as waste_reason,
        case
            when not coalesce(asked.has_unknown, false)
                then coalesce(asked.asked_again_count, 0)
        end as asked_again_count,
        case
            when not coalesce(asked.has_unknown, false)
                then if(
                    int_trials.ended_by = 'submitted',
                    coalesce(guesses.never_given_count, 0),
                    0
                )
        end as guessed_count,
        coalesce(answers.answer_count, 0) as answer_count,
        coalesce(answers.actions_until_answers, 0) as actions_until_answers
    from trials
    inner join int_trials on trials.trial_id = int_trials.trial_id
    left join wasted_trials as wasted
        on
            trials.trial_id = wasted.trial_id
            and trials.agent = wasted.agent
    left join asked on trials.stream_id = asked.stream_id
    left join guesses on trials.stream_id = guesses.stream_id
    left join answers on trials.stream_id = answers.stream_id
    where trials.is_measured
),

conditions as (
    select *
    from unit_values
    where
        unit_kind = 'variant'
        and (condition = 'ask_user' or condition like 'ask\_user\_%' escape '\')
    qualify
        bool_or(condition <> 'ask_user') over (
            partition by benchmark, agent, unit_id
        )
),

measured as (
    select
        cells.benchmark,
        cells.agent,
        cells.unit_id,
        cells.condition,
        cells.cluster_id,
        cells.cell_id,
        cells.n_trials,
        cells.n_missing,
        avg(trials.wasted_actions) as wasted_actions,
        min(trials.waste_reason) as waste_reason,
        avg(trials.asked_again_count) as asked_again_count,
        avg(trials.guessed_count) as guessed_count,
        nullif(sum(trials.answer_count), 0)::bigint as answer_count,
        sum(trials.actions_until_answers)::bigint as actions_until_answers
    from conditions as cells
    left join counted as trials
        on
            cells.benchmark = trials.benchmark
            and cells.agent = trials.agent
            and cells.unit_id = trials.variant_id
            and cells.condition = trials.condition
    where cells.measure = 'pass_at_1'
    group by all
),

facts as (
    select
        * exclude (
            wasted_actions,
            waste_reason,
            asked_again_count,
            guessed_count,
            answer_count,
            actions_until_answers
        ),
        unnest(
            [
                {
                    'measure': 'wasted_actions',
                    'numerator': wasted_actions,
                    'denominator': 1.0,
                    'reason': waste_reason
                },
                {
                    'measure': 'asked_again_per_trial',
                    'numerator': asked_again_count,
                    'denominator': 1.0,
                    'reason': 'unknown_revealed'
                },
                {
                    'measure': 'guessed_segments_per_trial',
                    'numerator': guessed_count,
                    'denominator': 1.0,
                    'reason': 'unknown_revealed'
                },
                {
                    'measure': 'actions_until_answer',
                    'numerator': if(answer_count > 0, actions_until_answers, null),
                    'denominator': answer_count,
                    'reason': 'never_answered'
                }
            ]
        ) as fact
    from measured
),

listed as (
    select
        benchmark,
        agent,
        unit_id,
        condition,
        measure,
        numerator,
        denominator,
        reason,
        cluster_id,
        cell_id,
        n_trials,
        n_missing
    from conditions
    where
        measure in (
            'pass_at_1', 'pass_at_k', 'checkpoint_progress', 'questions_per_trial'
        )
    union all
    select
        benchmark,
        agent,
        unit_id,
        condition,
        fact.measure,
        fact.numerator,
        fact.denominator,
        case
            when fact.numerator is null and n_trials = 0 then 'no_valid_trials'
            when fact.numerator is null then fact.reason
        end as reason,
        cluster_id,
        cell_id,
        n_trials,
        n_missing
    from facts
),

values_of_arms as (
    select
        listed.*,
        measure_kind(listed.measure) as kind
    from listed
    union all
    select
        late.benchmark,
        late.agent,
        late.unit_id,
        late.condition,
        late.measure || '_change' as measure,
        late.numerator / late.denominator - prompt.numerator / prompt.denominator
            as numerator,
        1 as denominator,
        case
            when prompt.unit_id is null then 'one_arm_only'
            else coalesce(late.reason, prompt.reason)
        end as reason,
        late.cluster_id,
        concat_ws('|', late.cell_id, prompt.cell_id) as cell_id,
        late.n_trials + coalesce(prompt.n_trials, 0) as n_trials,
        late.n_missing + coalesce(prompt.n_missing, 0) as n_missing,
        if(measure_kind(late.measure) = 'level', 'gain', 'free_gain') as kind
    from listed as late
    left join listed as prompt
        on
            late.benchmark = prompt.benchmark
            and late.agent = prompt.agent
            and late.unit_id = prompt.unit_id
            and late.measure = prompt.measure
            and prompt.condition = 'ask_user'
    where late.condition <> 'ask_user' and late.measure <> 'actions_until_answer'
),

estimated as (
    select
        benchmark,
        agent,
        condition,
        measure,
        unit_estimate(
            kind, numerator, denominator, min(reason), cluster_id
        ) as estimate,
        sum_once(cell_id, case when numerator is not null then n_trials end)
            as n_trials,
        sum_once(cell_id, n_missing) as n_missing
    from values_of_arms
    group by benchmark, agent, condition, measure
)

select
    benchmark,
    agent,
    condition,
    measure,
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
    significant(estimate.p_value) as p_value,
    significant(
        holm(estimate.p_value, list(estimate.p_value) over (partition by measure))
    ) as p_holm
from estimated
