-- view: observed_classes
-- grain: variant_digest, agent, role
-- inputs: int_attempt_arms, int_attempts, stg_new_tasks_judged
-- outputs:
--   variant_digest, agent, role, benchmark, variant_id
--   agent_name varchar: name of the agent as given
--   n_planned, n_trials
--   n_success bigint: successes among them
--   n_terminal_states bigint: different terminal states, |S|
--   ambiguity_class
--   class_counts varchar: for a vote, the number of agents for each class; else null
--   new_task_verdict varchar: confirmed, rejected, unjudged or not_applicable
--   judge varchar: who judged; null if unjudged
--   judge_reason varchar: reason that the judge gave
--   oracle_decision varchar: CLARIFY or PROCEED
--   reason
-- equation: n = valid trials, c = successes, S = distinct terminal states; the first
--     match counts. c = 0 and |S| = 1 and a judge's verdict: new_task; c = 0:
--     outcome-critical; |S| = 1 and c = n: benign; otherwise divergent. A vote is the
--     class that more classifying agents give than any other class
-- source: docs/metrics.md 2, ambiguity class: it depends on the classifying agent;
--     parameters `class_rule`, `classifier_experiment`, `exclude_endings`, `judge`,
--     `settings`
-- notes: each class follows from the agent's own trials. The tables never use an
--     evaluated agent's own class, see ambiguity_classes. Only `underspecified` trials
--     are used, evaluated and classifying trials separately. Planned is the recorded
--     number per cell, or the number of trials seen if that is larger. A variant with c
--     = 0 and |S| = 1 is new_task only if a judge's verdict on exactly these trials
--     confirms it. If rejected or unjudged, it is outcome-critical. With class_rule =
--     readme, c = n is benign whatever S is. The class is null if there are fewer
--     trials than planned. A verdict counts only while it is about exactly the valid
--     trials of the variant, agent and role. With another trial or attempt the variant
--     is unjudged again. The last verdict counts (ties by stream and sequence), or the
--     last verdict of the chosen judge. If two or more agents classified a variant, the
--     row with agent and role `vote` has their joint class. A tie has no class (reason
--     classifiers_tie), and neither has a vote if one agent gives no class. A vote is
--     unjudged if an agent that voted for its class is unjudged.
with arms as (
    select
        stream_id,
        trial_agent,
        bool_or(is_chosen) as is_chosen,
        any_value(trials_per_cell) as trials_per_cell
    from int_attempt_arms
    group by stream_id, trial_agent
),

trials as (
    select
        attempts.* exclude (is_counted),
        arms.trial_agent as agent,
        arms.trials_per_cell,
        attempts.is_counted as is_valid,
        attempts.is_counted and not attempts.is_ending_excluded as is_counted
    from int_attempts as attempts
    inner join arms
        on attempts.stream_id = arms.stream_id
    where
        attempts.gives_keys
        and attempts.condition = 'underspecified'
        and (
            attempts.role <> 'classifier'
            or getvariable('classifier_experiment') is null
            or attempts.experiment_id = getvariable('classifier_experiment')
        )
        and (
            attempts.role <> 'classifier'
            or getvariable('settings') is null
            or arms.is_chosen
        )
),

outcomes as (
    select
        variant_digest,
        agent,
        role,
        any_value(benchmark) as benchmark,
        any_value(variant_id) as variant_id,
        any_value(agent_name) as agent_name,
        greatest(coalesce(max(trials_per_cell), 0), count(*)) as n_planned,
        count(*) filter (where is_counted) as n_trials,
        list_sort(list(stream_id) filter (where is_valid))
            as valid_stream_ids,
        count(*) filter (where is_counted and is_success) as n_success,
        count(distinct terminal_state) filter (where is_counted) as n_terminal_states
    from trials
    group by variant_digest, agent, role
),

verdicts as (
    select
        variant_digest,
        judged_stream_ids,
        arg_max(
            { 'verdict': verdict, 'judge': judge, 'reason': reason },
            (recorded_at_us, stream_id, sequence)
        ) as said
    from stg_new_tasks_judged
    where getvariable('judge') is null or judge = getvariable('judge')
    group by variant_digest, judged_stream_ids
),

judged as (
    select
        outcomes.variant_digest,
        outcomes.agent,
        outcomes.role,
        outcomes.benchmark,
        outcomes.variant_id,
        outcomes.agent_name,
        outcomes.n_planned,
        outcomes.n_trials,
        outcomes.n_success,
        outcomes.n_terminal_states,
        outcomes.n_trials < outcomes.n_planned as is_incomplete,
        case
            when outcomes.n_success = 0 and outcomes.n_terminal_states = 1
                then coalesce(verdicts.said.verdict, 'unjudged')
            else 'not_applicable'
        end as new_task_verdict,
        verdicts.said.judge,
        verdicts.said.reason as judge_reason
    from outcomes
    left join verdicts
        on
            outcomes.variant_digest = verdicts.variant_digest
            and outcomes.valid_stream_ids = verdicts.judged_stream_ids
),

rated as (
    select
        *,
        case
            when is_incomplete then null
            when new_task_verdict = 'confirmed' then 'new_task'
            when n_success = 0 then 'outcome-critical'
            when
                n_success = n_trials
                and (n_terminal_states = 1 or getvariable('class_rule') = 'readme')
                then 'benign'
            else 'divergent'
        end as ambiguity_class
    from judged
),

classed as (
    select
        variant_digest,
        agent,
        role,
        benchmark,
        variant_id,
        agent_name,
        n_planned,
        n_trials,
        n_success,
        n_terminal_states,
        ambiguity_class,
        null::varchar as class_counts,
        case when not is_incomplete then new_task_verdict end as new_task_verdict,
        judge,
        judge_reason,
        case when is_incomplete then 'trials_incomplete' end as reason
    from rated
),

votes as (
    select
        variant_digest,
        benchmark,
        variant_id,
        ambiguity_class,
        count(*) as n_votes,
        sum(n_planned) as n_planned,
        sum(n_trials) as n_trials,
        sum(n_success) as n_success,
        min(new_task_verdict) filter (where new_task_verdict <> 'not_applicable')
            as asked_verdict,
        bool_or(new_task_verdict = 'unjudged') as is_unjudged
    from classed
    where role = 'classifier'
    group by variant_digest, benchmark, variant_id, ambiguity_class
),

counted as (
    select
        variant_digest,
        any_value(benchmark) as benchmark,
        any_value(variant_id) as variant_id,
        sum(n_planned)::bigint as n_planned,
        sum(n_trials)::bigint as n_trials,
        sum(n_success)::bigint as n_success,
        arg_max(
            {
                'ambiguity_class': ambiguity_class,
                'verdict': case
                    when is_unjudged then 'unjudged'
                    else coalesce(asked_verdict, 'not_applicable')
                end
            },
            n_votes
        ) as most,
        string_agg(
            printf('%s %d', ambiguity_class, n_votes), ', '
            order by n_votes desc, ambiguity_class asc
        ) as class_counts,
        bool_or(ambiguity_class is null) as is_incomplete,
        max(n_votes, 2) as largest
    from votes
    group by variant_digest
    having sum(n_votes) > 1
),

voted as (
    select
        *,
        case
            when is_incomplete then 'trials_incomplete'
            when len(largest) > 1 and largest[1] = largest[2] then 'classifiers_tie'
        end as reason
    from counted
),

every as (
    select * from classed
    union all by name
    select
        variant_digest,
        'vote' as agent,
        'vote' as role,
        benchmark,
        variant_id,
        'vote' as agent_name,
        n_planned,
        n_trials,
        n_success,
        case when reason is null then most.ambiguity_class end as ambiguity_class,
        class_counts,
        case when reason is null then most.verdict end as new_task_verdict,
        reason
    from voted
)

select
    variant_digest,
    agent,
    role,
    benchmark,
    variant_id,
    agent_name,
    n_planned,
    n_trials,
    n_success,
    n_terminal_states,
    ambiguity_class,
    class_counts,
    new_task_verdict,
    judge,
    judge_reason,
    oracle_decision(ambiguity_class) as oracle_decision,
    reason
from every
