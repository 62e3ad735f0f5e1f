-- Recomputes one cell of each base table from the raw events of the demo store, without our views or functions:
--     make demo && lhaw-record sql stores/demo < examples/by_hand.sql
-- A test runs the demo (without some of its injections) and compares each result with the named cell. Events: docs/log-format.md.

-- cell=overall/agent=balanced/condition=underspecified/measure=pass_at_k
-- `balanced`, `underspecified`, `pass_at_k`: with three trials of a variant and k = 3, pass@3 of the variant is 1 when any of its trials succeeded. The cell is the mean over variants.
select avg(passed) as "overall, balanced, underspecified, pass_at_k"
from (
    select max(finished.trial_finished.is_success::int) as passed
    from events as started
    join events as finished using (stream_id)
    where started.type = 'trial_started' and finished.type = 'trial_finished'
        and started.trial_started.agent = 'balanced'
        and started.trial_started.condition = 'underspecified'
    group by started.trial_started.variant_id
);

-- cell=by_class/ambiguity_class=outcome-critical/agent=balanced/condition=ask_user/measure=pass_at_k
-- A variant is outcome-critical when none of the classifying agent's trials succeeded (those trials have `role = 'classifier'`). The cell is pass@3 of `balanced` with `ask_user` over these variants.
with ended as (
    select started.trial_started as trial, finished.trial_finished.is_success as is_success
    from events as started
    join events as finished using (stream_id)
    where started.type = 'trial_started' and finished.type = 'trial_finished'
),
critical as (
    select trial.variant_id as variant_id
    from ended
    where trial.role = 'classifier'
    group by trial.variant_id
    having not bool_or(is_success)
)
select avg(passed) as "by_class, outcome-critical, balanced, ask_user, pass_at_k"
from (
    select max(is_success::int) as passed
    from ended
    where trial.role = 'evaluated' and trial.agent = 'balanced' and trial.condition = 'ask_user'
        and trial.variant_id in (select variant_id from critical)
    group by trial.variant_id
);

-- cell=by_dimension_pass/agent=over_clarifier/dimension=goal/condition=ask_user/measure=pass_at_k
-- The dimension of a variant is that of the segments that were removed; a variant counts once in each of its dimensions.
with removed as (
    select distinct
        variant_generated.variant.variant_id as variant_id,
        unnest(variant_generated.variant.segments).dimension as dimension
    from events
    where type = 'variant_generated'
)
select avg(passed) as "by_dimension_pass, over_clarifier, goal, ask_user, pass_at_k"
from (
    select max(finished.trial_finished.is_success::int) as passed
    from events as started
    join events as finished using (stream_id)
    where started.type = 'trial_started' and finished.type = 'trial_finished'
        and started.trial_started.agent = 'over_clarifier'
        and started.trial_started.condition = 'ask_user'
        and started.trial_started.variant_id in (select variant_id from removed where dimension = 'goal')
    group by started.trial_started.variant_id
);

-- cell=by_dimension_progress/agent=balanced/dimension=constraint/condition=underspecified/measure=checkpoint_progress
-- Checkpoint progress of a trial is the sum of its scores over the sum of its totals; then come the mean per variant and the mean over variants.
with removed as (
    select distinct
        variant_generated.variant.variant_id as variant_id,
        unnest(variant_generated.variant.segments).dimension as dimension
    from events
    where type = 'variant_generated'
),
graded as (
    select stream_id, sum(checkpoint_scored.score) / sum(checkpoint_scored.total) as progress
    from events
    where type = 'checkpoint_scored'
    group by stream_id
)
select avg(progress) as "by_dimension_progress, balanced, constraint, underspecified, checkpoint_progress"
from (
    select avg(graded.progress) as progress
    from events as started
    join graded using (stream_id)
    where started.type = 'trial_started'
        and started.trial_started.agent = 'balanced'
        and started.trial_started.condition = 'underspecified'
        and started.trial_started.variant_id in (select variant_id from removed where dimension = 'constraint')
    group by started.trial_started.variant_id
);

-- cell=voi/dimension=constraint/agent=balanced/condition=inject_90/measure=pass_at_k
-- The same measure under an injection. A unit is a (variant, agent), and all units of the demo have all their conditions.
with removed as (
    select distinct
        variant_generated.variant.variant_id as variant_id,
        unnest(variant_generated.variant.segments).dimension as dimension
    from events
    where type = 'variant_generated'
)
select avg(passed) as "voi, constraint, balanced, inject_90, pass_at_k"
from (
    select max(finished.trial_finished.is_success::int) as passed
    from events as started
    join events as finished using (stream_id)
    where started.type = 'trial_started' and finished.type = 'trial_finished'
        and started.trial_started.agent = 'balanced'
        and started.trial_started.condition = 'inject_90'
        and started.trial_started.variant_id in (select variant_id from removed where dimension = 'constraint')
    group by started.trial_started.variant_id
);

-- cell=wasted/agent=balanced/condition=inject_90/measure=wasted_pct
-- The share of actions before the injection that no `full` trial of the same agent and task performs. An action (tool and arguments) is excused as often as it occurs in the `full` trial that does it most often.
with trials as (
    select stream_id, trial_started as trial
    from events
    where type = 'trial_started' and trial_started.agent = 'balanced'
),
done as (
    select
        trials.stream_id, trials.trial, action_started.action_index as action_index,
        action_started.name || ' ' || action_started.arguments_json as action
    from events
    join trials using (stream_id)
    where type = 'action_started' and action_started.kind <> 'text'
        and action_started.name not in ('ask_user', 'submit')
),
supply as (
    select task_id, action, max(times) as times
    from (
        select stream_id, trial.task_id as task_id, action, count(*) as times
        from done
        where trial.condition = 'full'
        group by all
    )
    group by all
),
before as (
    select done.stream_id, done.trial.task_id as task_id, done.trial.variant_id as variant_id, done.action, count(*) as times
    from done
    join events as injected using (stream_id)
    where injected.type = 'clarification_injected' and injected.clarification_injected.inject_percent = 90
        and done.action_index <= injected.clarification_injected.after_action
    group by all
),
per_trial as (
    select
        before.variant_id,
        sum(greatest(before.times - coalesce(supply.times, 0), 0)) / sum(before.times) as share
    from before
    left join supply using (task_id, action)
    group by before.stream_id, before.variant_id
)
select 100 * avg(share) as "wasted, balanced, inject_90, wasted_pct"
from (select avg(share) as share from per_trial group by variant_id);

-- cell=natural_ask/agent=balanced/task_id=all/measure=ask_pct
-- The share of valid trials under `ask_user` that asked at least one question, in percent.
select 100 * avg((questions > 0)::int) as "natural_ask, balanced, all, ask_pct"
from (
    select started.stream_id, count(asked.stream_id) as questions
    from events as started
    left join events as asked on asked.stream_id = started.stream_id and asked.type = 'question_asked'
    where started.type = 'trial_started'
        and started.trial_started.agent = 'balanced'
        and started.trial_started.condition = 'ask_user'
    group by started.stream_id
);

-- cell=trial_counts_and_cost/agent=balanced/condition=full/purpose=agent column=cost_usd
-- What the agent's model calls cost in all valid `full` trials, in USD. The scripted models report a made-up price.
select sum(replied.model_responded.usage.cost_usd) as "trial_counts_and_cost, balanced, full, agent"
from events as started
join events as replied using (stream_id)
where started.type = 'trial_started' and replied.type = 'model_responded'
    and started.trial_started.agent = 'balanced'
    and started.trial_started.condition = 'full';
