-- view: ambiguity_classes
-- grain: variant_digest
-- inputs: int_selections, int_variants, observed_classes
-- outputs:
--   variant_digest, benchmark, task_id, variant_id
--   origin varchar: who made the variant
--   severity varchar: delete, vaguify, genericize, decoy or environment
--   ambiguity_class
--   class_source varchar: label, selection or classifier
--   classified_by varchar: who gave the class
--   new_task_verdict varchar: confirmed, rejected, unjudged or not_applicable
--   oracle_decision varchar: CLARIFY or PROCEED
--   n_planned, n_trials
--   n_success bigint: successes among them
--   n_terminal_states bigint: different terminal states, |S|
--   reason
-- equation: the label that came with the variant, or else the class that it was
--     selected for, or else the classifier's class
-- source: docs/metrics.md 2, which class the tables use and oracle_decision; parameters
--     `classifier_agent` and `classifier_experiment`
-- notes: without `classifier_agent` the only classifying agent is used. If there are
--     several, or one under several settings, the class is null (several_classifiers)
--     until `classifier_agent` or `settings` chooses one. The agent `vote` has the
--     class of their vote. A label has no verdict. If several selections chose a
--     variant, the last recorded selection counts (ties by stream and sequence); with
--     `classifier_agent`, the last selection by that agent. A class from a selection is
--     shown with the trials and the verdict of the agent that gave the class, if this
--     store has them. A variant has no class if reviewers chose it before it had one.
with chosen as (
    select
        classifier,
        (recorded_at_us, stream_id, sequence) as place,
        unnest(variants) as variant
    from int_selections
    where
        getvariable('classifier_agent') is null
        or classifier = getvariable('classifier_agent')
),

selected as (
    select
        variant.variant_digest,
        arg_max(variant.ambiguity_class, place) as ambiguity_class,
        arg_max(classifier, place) as classified_by
    from chosen
    where variant.ambiguity_class <> 'unclassified'
    group by variant.variant_digest
),

classifiers as (
    select
        classified.variant_digest,
        classified.agent,
        classified.n_planned,
        classified.n_trials,
        classified.n_success,
        classified.n_terminal_states,
        classified.ambiguity_class,
        classified.new_task_verdict,
        classified.reason,
        count(*) over (partition by classified.variant_digest) as n_classifiers,
        row_number() over (
            partition by classified.variant_digest order by classified.agent
        ) as choice
    from observed_classes as classified
    left join selected
        on classified.variant_digest = selected.variant_digest
    where
        classified.role in ('classifier', 'vote')
        and coalesce(
            getvariable('classifier_agent'),
            selected.classified_by,
            case when classified.role = 'classifier' then classified.agent end
        ) in (classified.agent, classified.agent_name)
),

assigned as (
    select
        int_variants.variant_digest,
        int_variants.benchmark,
        int_variants.task_id,
        int_variants.variant_id,
        int_variants.origin,
        int_variants.severity,
        int_variants.ambiguity_class is not null as has_label,
        int_variants.classified_by,
        int_variants.ambiguity_class as label,
        selected.ambiguity_class is not null as is_selected,
        selected.ambiguity_class as selected_class,
        selected.classified_by as selected_by,
        classifiers.agent,
        classifiers.n_planned,
        classifiers.n_trials,
        classifiers.n_success,
        classifiers.n_terminal_states,
        classifiers.ambiguity_class,
        classifiers.new_task_verdict,
        case
            when classifiers.variant_digest is null then 'no_label_and_no_classifier'
            when classifiers.n_classifiers > 1 then 'several_classifiers'
            else classifiers.reason
        end as reason
    from int_variants
    left join selected
        on int_variants.variant_digest = selected.variant_digest
    left join classifiers
        on
            int_variants.variant_digest = classifiers.variant_digest
            and classifiers.choice = 1
),

decided as (
    select
        variant_digest,
        benchmark,
        task_id,
        variant_id,
        origin,
        severity,
        case
            when has_label then label
            when is_selected then selected_class
            when reason is null then ambiguity_class
        end as ambiguity_class,
        case
            when has_label then 'label'
            when is_selected then 'selection'
            when reason is null then 'classifier'
        end as class_source,
        case
            when has_label then classified_by
            when is_selected then selected_by
            when reason is null then agent
        end as classified_by,
        case
            when has_label then 'not_applicable'
            when reason is null then new_task_verdict
            when is_selected then 'not_applicable'
        end as new_task_verdict,
        n_planned,
        n_trials,
        n_success,
        n_terminal_states,
        case when not has_label and not is_selected then reason end as reason
    from assigned
)

select
    variant_digest,
    benchmark,
    task_id,
    variant_id,
    origin,
    severity,
    ambiguity_class,
    class_source,
    classified_by,
    new_task_verdict,
    oracle_decision(ambiguity_class) as oracle_decision,
    n_planned,
    n_trials,
    n_success,
    n_terminal_states,
    reason
from decided
