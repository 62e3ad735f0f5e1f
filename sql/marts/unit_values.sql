-- view: unit_values
-- grain: benchmark, agent, unit_kind, unit_id, condition, measure
-- inputs: int_cells, int_variant_dimensions, int_variants
-- outputs:
--   benchmark
--   agent varchar: name of the agent, with part of its digest where names repeat
--   unit_kind, unit_id, condition, measure, task_id
--   variant_digest varchar: digest of the variant; null for a task
--   ambiguity_class
--   severity varchar: delete, vaguify, genericize, decoy, environment or unknown
--   segments_removed bigint: removed segments of the variant; null if unknown
--   dimensions varchar[]: dimensions of the variant, as `per` counts them; for a task,
--       dimensions of its variants
--   unit_value double: numerator / denominator
--   numerator double: numerator of the ratio; null without a value
--   denominator double: denominator of the ratio; 1 for a mean
--   reason, cell_id, n_trials, n_missing, n_not_injected
--   n_questions bigint: questions of these trials, in the ask arm; null if unknown
--   cluster_id
-- equation: value of a set of units = sum(numerator) / sum(denominator); gain =
--     value(ask_user) - value(underspecified) of the same variant
-- source: docs/metrics.md 2 and 3; parameter `per`
-- notes: the values that the tables average, one per row. A table groups these rows and
--     uses table_estimate. Every task has rows for the full prompt. A variant has rows
--     for every condition under which it ran. Its row of `full` is that of its task,
--     with the same cell_id, unless it has full trials of its own. All units have the
--     measures pass_at_1 (successes / trials), pass_at_k, pass_hat_k and
--     checkpoint_progress (mean per trial, then per unit). If the agent may ask, there
--     are also ask_pct, ask_variant_pct, questions_per_trial and
--     questions_per_asking_trial. Variants under ask_user also have ..._gain, and pass_
--     and progress_pp_per_question_per_variant (gain in percentage points divided by
--     questions), with and without _per_variant. Gains are paired: if a variant has no
--     value in one arm, its gain is null (one_arm_only, or the reason of that arm).
--     n_trials of a gain counts the trials of both arms. An agent that never ran
--     ask_user has no gains. questions_per_asking_trial of a unit that never asked has
--     no numerator. A task has the dimensions of its variants under underspecified or
--     ask_user.
with described as (
    select
        int_variants.variant_digest,
        any_value(coalesce(int_variants.severity, 'unknown')) as severity,
        any_value(len(int_variants.segments)) as segments_removed,
        coalesce(
            list(dimensions.dimension order by dimensions.position)
            filter (where dimensions.dimension is not null),
            []
        ) as dimensions
    from int_variants
    left join int_variant_dimensions as dimensions
        on int_variants.variant_digest = dimensions.variant_digest
    group by int_variants.variant_digest
),

met as (
    select
        benchmark,
        agent,
        unit_kind,
        unit_id,
        any_value(task_id) as task_id,
        any_value(variant_digest) as variant_digest,
        any_value(ambiguity_class) filter (where unit_kind = 'variant')
            as ambiguity_class,
        any_value(cluster_id) as cluster_id,
        bool_or(condition in ('underspecified', 'ask_user')) as is_compared
    from int_cells
    group by benchmark, agent, unit_kind, unit_id
),

units as (
    select
        met.*,
        described.severity,
        described.segments_removed,
        described.dimensions,
        list(described.dimensions)
        filter (where described.dimensions is not null and met.is_compared) over task
            as dimensions_of_variants
    from met
    left join described on met.variant_digest = described.variant_digest
    window task as (partition by met.benchmark, met.agent, met.task_id)
),

cells as (
    select * exclude (task_id, variant_digest, ambiguity_class)
    from int_cells
    where condition = 'full' or not is_of_task
),

valued as (
    select
        *,
        unnest(levels) as level
    from cells
),

asking as (
    select
        *,
        unnest(
            [
                {
                    'name': 'ask_pct',
                    'above': 100 * n_asking_trials,
                    'below': n_trials
                },
                {
                    'name': 'ask_variant_pct',
                    'above': 100 * (n_asking_trials > 0)::bigint,
                    'below': 1
                },
                {
                    'name': 'questions_per_trial',
                    'above': n_questions,
                    'below': n_trials
                },
                {
                    'name': 'questions_per_asking_trial',
                    'above': if(n_asking_trials > 0, n_questions, null),
                    'below': n_asking_trials
                }
            ]
        ) as asked
    from cells
    where contains(condition, 'ask_user')
),

gains as (
    select
        benchmark,
        agent,
        unit_kind,
        unit_id,
        level.name as level_name,
        any_value(level.number) filter (where condition = 'ask_user')
        - any_value(level.number) filter (where condition = 'underspecified') as gain,
        any_value(n_questions) filter (where condition = 'ask_user') as n_questions,
        case
            when count(*) = 1 then 'one_arm_only'
            else coalesce(
                any_value(level.reason) filter (where condition = 'ask_user'),
                any_value(level.reason) filter (where condition = 'underspecified')
            )
        end as reason,
        string_agg(cell_id, '|' order by cell_id) as cell_id,
        sum(n_trials)::bigint as n_trials,
        sum(n_missing)::bigint as n_missing,
        sum(n_not_injected)::bigint as n_not_injected
    from valued
    where
        unit_kind = 'variant'
        and condition in ('ask_user', 'underspecified')
        and level.name <> 'pass_hat_k'
    group by benchmark, agent, unit_kind, unit_id, level_name
    qualify
        bool_or(bool_or(condition = 'ask_user')) over (partition by benchmark, agent)
),

per_question as (
    select
        *,
        unnest(
            case level_name
                when 'pass_at_k'
                    then [
                        'pass_pp_per_question_per_variant', 'pass_pp_per_question'
                    ]
                when 'checkpoint_progress'
                    then [
                        'progress_pp_per_question_per_variant',
                        'progress_pp_per_question'
                    ]
            end
        ) as measure
    from gains
),

listed as (
    select
        benchmark,
        agent,
        unit_kind,
        unit_id,
        condition,
        level.name as measure,
        level.number as numerator,
        1.0::double as denominator,
        level.reason,
        cell_id,
        n_trials,
        n_missing,
        n_not_injected,
        n_questions
    from valued
    union all
    select
        benchmark,
        agent,
        unit_kind,
        unit_id,
        condition,
        asked.name as measure,
        case when n_trials > 0 then asked.above end as numerator,
        asked.below as denominator,
        case
            when n_questions is null then 'unknown_actions'
            when asked.below = 0 then coalesce(trial_reason, 'nobody_asked')
            else trial_reason
        end as reason,
        cell_id,
        n_trials,
        n_missing,
        n_not_injected,
        n_questions
    from asking
    union all
    select
        benchmark,
        agent,
        unit_kind,
        unit_id,
        'ask_user' as condition,
        level_name || '_gain' as measure,
        gain as numerator,
        1.0::double as denominator,
        reason,
        cell_id,
        n_trials,
        n_missing,
        n_not_injected,
        n_questions
    from gains
    union all
    select
        benchmark,
        agent,
        unit_kind,
        unit_id,
        'ask_user' as condition,
        measure,
        case when n_questions is not null then 100 * gain end as numerator,
        n_questions as denominator,
        case
            when gain is not null and n_questions is null then 'unknown_actions'
            else reason
        end as reason,
        cell_id,
        n_trials,
        n_missing,
        n_not_injected,
        n_questions
    from per_question
)

select
    listed.benchmark,
    listed.agent,
    listed.unit_kind,
    listed.unit_id,
    listed.condition,
    listed.measure,
    units.task_id,
    units.variant_digest,
    units.ambiguity_class,
    units.severity,
    units.segments_removed,
    case units.unit_kind
        when 'variant' then units.dimensions
        else list_sort(list_distinct(flatten(units.dimensions_of_variants)))
    end as dimensions,
    listed.numerator / nullif(listed.denominator, 0) as unit_value,
    listed.numerator,
    listed.denominator,
    listed.reason,
    listed.cell_id,
    listed.n_trials,
    listed.n_missing,
    listed.n_not_injected,
    listed.n_questions,
    units.cluster_id
from listed
inner join units
    on
        listed.benchmark = units.benchmark
        and listed.agent = units.agent
        and listed.unit_kind = units.unit_kind
        and listed.unit_id = units.unit_id
