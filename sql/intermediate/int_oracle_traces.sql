-- view: int_oracle_traces
-- grain: trial_id
-- inputs: int_trials_evaluated, stg_actions_started
-- outputs:
--   trial_id, stream_id, benchmark, agent, task_id, variant_id, condition
--   last_pre_injection_action bigint: last action before the message, or of the trial
--   has_actions boolean: its actions are known
--   oracle_variant_id varchar: variant whose full trials count; null if those of the
--       task count
--   has_oracle boolean: its unit has a measured full trial with known actions
--   actions struct[]: the pre-injection actions: action_index, action_name, action_key
--       (which equal actions share) and supply (the number of counterparts)
-- equation: key = hash of name and canonical arguments with trimmed strings, or of the
--     name only; supply = largest count of the key in one `full` trial of the unit
-- source: docs/metrics.md 4, wasted compute and budget: the unit is (agent; task or
--     variant); parameters `wasted_match`, `wasted_supply`, `wasted_uninjected`
-- notes: the measured trials of the injected conditions, of ask_user_NAME, and of
--     ask_user if it is compared with ask_user_NAME. oracle_variant_id is their own
--     variant, or null if the `full` trials of the task count. Pre-injection actions
--     are those up to the action after which the message was inserted, or all actions
--     without a message. ask_user, submit and turns of text alone are left out.
--     Arguments are recorded as canonical JSON, so they are parsed only if a string may
--     start or end with a blank. `wasted_supply` sets the supply: with set, one
--     occurrence suffices for any number; with single, the first trial by index is
--     counted; with sum, all traces are. Trials with unknown actions are no traces.
--     Arms may share a trace.
with oracles as (
    select
        trial_id,
        stream_id,
        benchmark,
        agent,
        task_id,
        variant_id,
        row_number() over (
            partition by benchmark, agent, task_id, variant_id
            order by trial_index, trial_id
        ) as trace_number
    from int_trials_evaluated
    where condition = 'full' and is_measured and action_count is not null
),

late_units as (
    select distinct
        benchmark,
        agent,
        variant_id
    from int_trials_evaluated
    where condition like 'ask\_user\_%' escape '\'
),

oracle_units as (
    select distinct
        benchmark,
        agent,
        task_id,
        variant_id
    from oracles
),

traces as (
    select
        trials.trial_id,
        trials.stream_id,
        trials.benchmark,
        trials.agent,
        trials.task_id,
        trials.variant_id,
        trials.condition,
        case
            when trials.is_injected then trials.injected_after_action
            else trials.action_count
        end as last_pre_injection_action,
        trials.action_count is not null as has_actions,
        own.variant_id as oracle_variant_id,
        own.variant_id is not null or shared.task_id is not null as has_oracle
    from int_trials_evaluated as trials
    left join oracle_units as own
        on
            trials.benchmark = own.benchmark
            and trials.agent = own.agent
            and trials.variant_id = own.variant_id
    left join late_units as late
        on
            trials.benchmark = late.benchmark
            and trials.agent = late.agent
            and trials.variant_id = late.variant_id
            and trials.condition like 'ask\_user%' escape '\'
    left join oracle_units as shared
        on
            trials.benchmark = shared.benchmark
            and trials.agent = shared.agent
            and trials.task_id = shared.task_id
            and shared.variant_id is null
    where
        trials.trial_state = 'valid'
        and (
            late.variant_id is not null
            or (
                trials.inject_percent is not null
                and (trials.is_injected or getvariable('wasted_uninjected'))
            )
        )
),

looked_at as (
    select
        trial_id,
        stream_id,
        9223372036854775807 as last_action
    from oracles
    union
    select
        trial_id,
        stream_id,
        last_pre_injection_action as last_action
    from traces
),

keyed as (
    select
        looked_at.trial_id,
        actions.action_index,
        actions.action_name,
        hash(
            actions.action_name,
            case
                when getvariable('wasted_match') = 'name' then null
                when
                    actions.kind = 'malformed'
                    or has_blank_at_quote(actions.arguments_json)
                    then trimmed_arguments(actions.arguments_json)
                else actions.arguments_json
            end
        ) as action_key
    from stg_actions_started as actions
    inner join looked_at
        on
            actions.stream_id = looked_at.stream_id
            and actions.action_index <= looked_at.last_action
    where
        actions.kind <> 'text' and actions.action_name not in ('ask_user', 'submit')
),

counted as (
    select
        oracles.benchmark,
        oracles.agent,
        oracles.task_id,
        oracles.variant_id,
        oracles.trace_number,
        keyed.action_key,
        count(*) as n_actions
    from oracles
    inner join keyed on oracles.trial_id = keyed.trial_id
    group by
        oracles.benchmark,
        oracles.agent,
        oracles.task_id,
        oracles.variant_id,
        oracles.trace_number,
        keyed.action_key
),

supplies as (
    select
        benchmark,
        agent,
        task_id,
        variant_id,
        action_key,
        case getvariable('wasted_supply')
            when 'set' then 9223372036854775807
            when 'sum' then sum(n_actions)::bigint
            when 'single'
                then coalesce(sum(n_actions) filter (where trace_number = 1), 0)::bigint
            else max(n_actions)
        end as supply
    from counted
    group by benchmark, agent, task_id, variant_id, action_key
),

pre_injection as (
    select
        traces.trial_id,
        list(
            {
                'action_index': keyed.action_index,
                'action_name': keyed.action_name,
                'action_key': keyed.action_key,
                'supply': coalesce(supplies.supply, 0)
            }
            order by keyed.action_index
        ) as actions
    from traces
    inner join keyed on traces.trial_id = keyed.trial_id
    left join supplies
        on
            traces.benchmark = supplies.benchmark
            and traces.agent = supplies.agent
            and traces.task_id = supplies.task_id
            and traces.oracle_variant_id is not distinct from supplies.variant_id
            and keyed.action_key = supplies.action_key
    group by traces.trial_id
)

select
    traces.*,
    coalesce(pre_injection.actions, []) as actions
from traces
left join pre_injection on traces.trial_id = pre_injection.trial_id
