"""The catalogue of the reported tables: their titles, key columns and parameters, and the order of their rows."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.statistics.effects import effects
from lhaw_record.recorder.events.values import CONDITIONS, DIMENSIONS
from lhaw_record.recorder.wording import did_you_mean

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class TableSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of one table.

    The columns ``keys`` identify a row. ``parameters`` are the analysis parameters that the numbers depend on.
    ``needs`` says what a store must contain for the table to have rows. If the store lacks some of ``conditions``, a
    note says so. ``shown`` lists the columns printed in addition to the value and the counts. Most tables are views; a
    table with ``compute`` is computed by that function.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    needs: str
    conditions: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    compute: Callable[["duckdb.DuckDBPyConnection"], "pa.Table"] | None = None


_BOTH = ("underspecified", "ask_user")
_THREE = ("full", *_BOTH)
_INJECTED = tuple(condition for condition in CONDITIONS if condition.startswith("inject_"))
_CURVE = ("full", "underspecified", *_INJECTED)

SPECS: tuple[TableSpec, ...] = (
    TableSpec(
        name="overall",
        title="Success, progress and clarification, all variants",
        keys=("benchmark", "agent", "condition", "measure"),
        needs="trials under full, underspecified, ask_user or inject_p",
        conditions=_THREE,
        parameters=("k", "intention_to_treat"),
    ),
    TableSpec(
        name="claims",
        title="What findings may claim, corrected over all of it",
        keys=("success", "family", "benchmark", "dimension", "agent", "condition", "measure"),
        needs="trials under two of full, underspecified, ask_user and inject_p",
        parameters=("k", "intention_to_treat", "pooled", "timing_measure", "permutations"),
        shown=("p_value", "p_family", "n_family"),
    ),
    TableSpec(
        name="losses",
        title="What missing information costs, and what is left of it after asking or a late message",
        keys=("benchmark", "agent", "condition", "measure"),
        needs="tasks with trials under full and another condition",
        conditions=("underspecified", "ask_user"),
        parameters=("k", "intention_to_treat", "permutations"),
        shown=("p_value", "p_holm"),
    ),
    TableSpec(
        name="by_class",
        title="pass@k by ambiguity class",
        keys=("benchmark", "ambiguity_class", "agent", "condition", "measure"),
        needs="trials of variants with an ambiguity class",
        conditions=_THREE,
        parameters=("k", "class_rule", "classifier_agent", "classifier_experiment"),
    ),
    TableSpec(
        name="by_dimension_pass",
        title="pass@k by dimension of what was removed",
        keys=("benchmark", "agent", "dimension", "condition", "measure"),
        needs="trials under full, underspecified or ask_user",
        conditions=_THREE,
        parameters=("k", "per"),
    ),
    TableSpec(
        name="by_dimension_progress",
        title="Checkpoint progress by dimension of what was removed",
        keys=("benchmark", "agent", "dimension", "condition", "measure"),
        needs="trials under full, underspecified or ask_user",
        conditions=_THREE,
        parameters=("per",),
    ),
    TableSpec(
        name="gain_tests",
        title="Gains from asking: tests and noise floor",
        keys=("split", "level", "benchmark", "agent", "measure"),
        needs="variants with trials under both underspecified and ask_user",
        parameters=("k", "per", "permutations", "confidence", "cluster"),
        shown=("p_value", "p_holm", "noise_floor"),
    ),
    TableSpec(
        name="voi",
        title="Value of the information by the time of its injection",
        keys=("benchmark", "dimension", "agent", "condition", "measure"),
        needs="injected trials",
        conditions=_CURVE,
        parameters=("k", "per", "voi_cases", "intention_to_treat", "pooled"),
    ),
    TableSpec(
        name="wasted",
        title="Work before the injection that no oracle trial does",
        keys=("benchmark", "agent", "condition", "measure"),
        needs="injected trials",
        conditions=_INJECTED,
        parameters=("wasted_match", "wasted_supply", "wasted_uninjected", "pooled"),
    ),
    TableSpec(
        name="natural_ask",
        title="When and how often agents ask by themselves",
        keys=("benchmark", "agent", "task_id", "measure"),
        needs="trials under ask_user",
    ),
    TableSpec(
        name="kendall",
        title="Whether two agents rank the same variants and timings alike",
        keys=("benchmark", "agent", "other_agent", "measure"),
        needs="two agents with injected trials of one benchmark",
        parameters=("k", "kendall_cells", "intention_to_treat"),
        shown=("p_value", "p_holm", "n_ties"),
    ),
    TableSpec(
        name="point_of_no_return",
        title="Up to which injection information gains over no clarification",
        keys=("benchmark", "dimension", "ambiguity_class", "agent", "timing", "measure"),
        needs="injected trials of variants with an ambiguity class",
        parameters=(
            "k",
            "per",
            "timing_measure",
            "flipped",
            "pooled",
            "cluster",
            "voi_cases",
            "intention_to_treat",
            "confidence",
            "permutations",
            "seed",
        ),
        shown=("p_greater", "p_holm"),
    ),
    TableSpec(
        name="optimal_window",
        title="How long an injection is worth as much as an early one, and who asks in that time",
        keys=("benchmark", "dimension", "agent", "measure"),
        needs="injected trials",
        parameters=(
            "k",
            "per",
            "timing_measure",
            "ask_scale",
            "voi_cases",
            "intention_to_treat",
            "window_pp",
            "pooled",
        ),
        shown=("reentry",),
    ),
    TableSpec(
        name="commitment",
        title="How far a trial is bound to its information, and the value that this leaves",
        keys=("benchmark", "dimension", "agent", "timing", "measure"),
        needs="injected trials",
        parameters=("k", "per", "timing_measure", "voi_cases", "intention_to_treat", "pooled"),
    ),
    TableSpec(
        name="timing_hypotheses",
        title="H1 and H2: which information loses its value early, and how much is left",
        keys=("benchmark", "hypothesis", "dimension", "agent", "measure"),
        needs="injected trials of variants with a known dimension",
        parameters=("k", "per", "timing_measure", "voi_cases", "intention_to_treat", "pooled", "permutations", "seed"),
        shown=("alternative", "p_claimed", "p_holm"),
    ),
    TableSpec(
        name="trial_counts_and_cost",
        title="Trials, tokens, cost and time",
        keys=("benchmark", "agent", "role", "condition", "purpose"),
        needs="trials",
    ),
    TableSpec(
        name="agent_health",
        title="How well each agent was followed, and which limits it met",
        keys=("benchmark", "agent", "measure"),
        needs="trials",
    ),
    TableSpec(
        name="endings",
        title="How trials ended, and why the model's last reply did",
        keys=("benchmark", "agent", "condition", "ended_by", "finish_reason", "measure"),
        needs="valid trials",
        parameters=("exclude_endings",),
        shown=("n_all_trials", "progress"),
    ),
    TableSpec(
        name="fidelity",
        title="Outcome-critical variants: whether agents fail without the information",
        keys=("benchmark", "agent", "condition", "measure"),
        needs="trials of outcome-critical variants",
        conditions=_THREE,
        parameters=("k", "class_rule", "classifier_agent", "classifier_experiment"),
    ),
    TableSpec(
        name="by_segments_removed",
        title="pass@k by the number of segments removed",
        keys=("benchmark", "agent", "segments_removed", "condition", "measure"),
        needs="trials under full, underspecified or ask_user",
        conditions=_THREE,
        parameters=("k",),
    ),
    TableSpec(
        name="by_severity",
        title="pass@k and classes by how segments were removed",
        keys=("benchmark", "severity", "ambiguity_class", "agent", "condition", "measure"),
        needs="variants",
        conditions=_BOTH,
        parameters=("k", "class_rule", "classifier_agent", "classifier_experiment"),
    ),
    TableSpec(
        name="by_strategy",
        title="Agents that differ in their strategy only",
        keys=("benchmark", "ambiguity_class", "strategy", "agent", "condition", "measure"),
        needs="agents with a strategy other than none",
        conditions=_BOTH,
        parameters=("k", "class_rule", "classifier_agent", "classifier_experiment"),
        shown=("model",),
    ),
    TableSpec(
        name="by_persona",
        title="Agents that differ in their persona only, against the same baseline",
        keys=("benchmark", "ambiguity_class", "persona", "agent", "condition", "measure"),
        needs="agents with a persona other than none",
        conditions=_BOTH,
        parameters=("k", "class_rule", "classifier_agent", "classifier_experiment"),
        shown=("model", "base_agent"),
    ),
    TableSpec(
        name="generality",
        title="Mean over agents, benchmark by benchmark",
        keys=("benchmark", "strategy", "persona", "condition", "measure"),
        needs="trials under full, underspecified or ask_user",
        conditions=_THREE,
        parameters=("k", "pooled"),
        shown=("n_agents",),
    ),
    TableSpec(
        name="over_asking",
        title="Asking where nothing is missing",
        keys=("benchmark", "agent", "condition", "measure"),
        needs="trials under full_ask_user",
        parameters=("k",),
    ),
    TableSpec(
        name="late_answers",
        title="What a late or missing answer costs",
        keys=("benchmark", "agent", "condition", "measure"),
        needs="trials under a condition ask_user_NAME, of a table [responses.NAME]",
        parameters=("k", "wasted_match", "wasted_supply", "permutations"),
        shown=("p_value", "p_holm"),
    ),
    TableSpec(
        name="controls",
        title="Controls: what changes where nothing that matters is missing",
        keys=("benchmark", "control_kind", "agent", "condition", "measure"),
        needs="trials of control variants",
        conditions=("control", "control_ask_user"),
        parameters=("k",),
    ),
    TableSpec(
        name="input_faults",
        title="Requests with a fault: conflicts, stale information, missing authority, follow-ups",
        keys=("benchmark", "fault", "agent", "condition", "measure"),
        needs="trials of faulty requests",
        conditions=("faulty", "faulty_ask_user"),
        parameters=("k",),
    ),
    TableSpec(
        name="net_value",
        title="The gain of asking less what questions cost",
        keys=("benchmark", "agent", "measure", "question_cost_pp"),
        needs="trials under ask_user",
        parameters=("k",),
    ),
    TableSpec(
        name="archetypes",
        title="What kind of asker an agent is",
        keys=("benchmark", "agent", "measure"),
        needs="trials under ask_user",
        parameters=("over_clarifier_pct", "under_clarifier_pct"),
        shown=("archetype", "is_archetype_clear"),
    ),
    TableSpec(
        name="task_selection",
        title="Tasks that reference agents make enough progress on",
        keys=("benchmark", "domain", "measure"),
        needs="trials under full",
        parameters=("k", "reference_agents", "selection_progress_pct"),
    ),
    TableSpec(
        name="variant_breakdown",
        title="Variants by dimensions and class",
        keys=("benchmark", "variant_set", "dimensions", "ambiguity_class", "measure"),
        needs="variants",
        parameters=("per", "class_rule", "classifier_agent", "classifier_experiment"),
    ),
    TableSpec(
        name="experiment_setup",
        title="Tasks, variants, trials and action budgets",
        keys=("benchmark", "agent", "measure"),
        needs="trials that the tables use",
        shown=("dimensions",),
        parameters=("pooled",),
    ),
    TableSpec(
        name="trajectory",
        title="One trial, step by step",
        keys=("benchmark", "condition", "trial_id", "stream_id", "step"),
        needs="trial of the id that the parameter trial names",
        parameters=("trial",),
    ),
    TableSpec(
        name="effects",
        title="All effects together: log odds of success by dimension and condition",
        keys=("benchmark", "dimension", "agent", "condition", "measure"),
        needs="trials of variants with a known dimension",
        parameters=("intention_to_treat", "confidence", "cluster"),
        shown=("p_value", "p_holm"),
        compute=effects,
    ),
    TableSpec(
        name="failure_modes",
        title="How agents ask wrongly: share of trials with questions",
        keys=("benchmark", "agent", "category", "measure"),
        needs="trials with questions",
        parameters=("judge", "exchange_judge"),
    ),
    TableSpec(
        name="failure_modes_failed",
        title="How agents ask wrongly where the trial failed",
        keys=("benchmark", "agent", "category", "measure"),
        needs="failed trials with questions",
        parameters=("judge", "exchange_judge"),
    ),
    TableSpec(
        name="failure_modes_by_class",
        title="How agents ask wrongly by ambiguity class",
        keys=("benchmark", "ambiguity_class", "agent", "category", "measure"),
        needs="trials with questions on variants with an ambiguity class",
        parameters=("judge", "exchange_judge", "classifier_agent", "classifier_experiment"),
    ),
    TableSpec(
        name="question_quality",
        title="Precision and recall of questions against what was removed",
        keys=("benchmark", "agent", "user_simulator", "measure"),
        needs="trials under ask_user",
        parameters=("exchange_judge",),
    ),
    TableSpec(
        name="simulator_fidelity",
        title="What simulated users gave when they were asked, and how far judges agree on that",
        keys=("benchmark", "user_simulator", "judge", "other_judge", "measure"),
        needs="trials with questions",
        parameters=("exchange_judge",),
        shown=("n_questions",),
    ),
    TableSpec(
        name="grader_agreement",
        title="How far graders of the same trials agree",
        keys=("benchmark", "grader", "other_grader", "measure"),
        needs="trials that two graders scored",
        shown=("n_claims",),
    ),
    TableSpec(
        name="segment_labels",
        title="Whether asserted scores of segments foretell what trials show",
        keys=("benchmark", "label", "asserted", "measure"),
        needs="trials under underspecified of variants with one removed segment",
    ),
    TableSpec(
        name="review_agreement",
        title="Which variants people accept, and how far they agree",
        keys=("benchmark", "reviewer", "other_reviewer", "measure"),
        needs="variants that people reviewed",
    ),
)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Success, and what missing information costs": (
        *(
            "overall",
            "claims",
            "losses",
            "by_class",
            "by_dimension_pass",
            "by_dimension_progress",
            "by_segments_removed",
        ),
        *("by_severity", "gain_tests", "effects", "generality"),
    ),
    "When information comes too late": (
        *("voi", "point_of_no_return", "optimal_window", "commitment", "timing_hypotheses", "wasted", "kendall"),
        "late_answers",
    ),
    "Who asks, when and how well": (
        *("natural_ask", "archetypes", "net_value", "over_asking", "question_quality", "by_strategy", "by_persona"),
        *("failure_modes", "failure_modes_failed", "failure_modes_by_class"),
    ),
    "Whether the instruments hold": (
        *("controls", "input_faults", "fidelity", "simulator_fidelity", "grader_agreement", "segment_labels"),
        *("review_agreement", "agent_health"),
    ),
    "What was run": (
        *("experiment_setup", "trial_counts_and_cost", "endings", "variant_breakdown", "task_selection", "trajectory"),
    ),
}
"""The tables by the question that they answer. Every table is in one group."""

_BY_NAME = {spec.name: spec for spec in SPECS}


def spec_of(name: str) -> TableSpec:
    if name not in _BY_NAME:
        raise UnknownName(f"there is no table {name!r}{did_you_mean(name, _BY_NAME)}; known: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


_MEASURES = (
    "pass_at_1",
    "pass_at_k",
    "pass_at_k_gain",
    "pass_pp_per_question",
    "pass_pp_per_question_per_variant",
    "pass_hat_k",
    "checkpoint_progress",
    "checkpoint_progress_gain",
    "pass_at_1_loss",
    "pass_at_k_loss",
    "checkpoint_progress_loss",
    "progress_pp_per_question",
    "progress_pp_per_question_per_variant",
    "ask_pct",
    "ask_variant_pct",
    "questions_per_asking_trial",
    "questions",
    "most_questions_per_trial",
    "success_pct",
    "first_ask_mean_pct",
    "first_ask_median_pct",
    "first_asks_25_to_50_pct",
    "options_with_truth_pct",
    "recommended_wrong_pct",
    "kendall_tau",
    "injection_gain",
    "point_of_no_return_pct",
    "window_threshold",
    "window_end_pct",
    "ask_in_window_pct",
    "ask_in_pooled_window_pct",
    "commitment",
    "voi",
    "voi_bound",
    "early_minus_late_decay",
    "decay_10_to_90",
    "gain_at_90",
    "log_odds_ratio",
    "effect_by_dimension_chi2",
    "wasted_pct",
    "wasted_actions",
    "pre_injection_actions",
    "pre_injection_tokens",
    "pre_injection_cost_usd",
    "questions_per_trial",
    "asked_again_per_trial",
    "guessed_segments_per_trial",
    "actions_until_answer",
    "pass_at_k_difference",
    "pass_at_1_change",
    "pass_at_k_change",
    "checkpoint_progress_change",
    "wasted_actions_change",
    "questions_per_trial_change",
    "asked_again_per_trial_change",
    "guessed_segments_per_trial_change",
    "pass_at_1_net_value_pp",
    "pass_at_1_break_even_pp",
    "pass_net_value_pp",
    "pass_break_even_pp",
    "progress_net_value_pp",
    "progress_break_even_pp",
    "candidates",
    "candidate_pass_at_1",
    "candidate_pass_at_k",
    "considered_tasks",
    "tasks",
    "solvable_tasks",
    "variants",
    "variants_in_dimension",
    "agents",
    "models",
    "trials",
    "ending_pct",
    "min_budget_actions",
    "mean_budget_actions",
    "max_budget_actions",
    "exact_agreement_pct",
    "kappa",
    "pass_agreement_pct",
    "mean_coverage_difference",
    "measured_pct",
    "label_tau",
    "accepted_pct",
    "agreement_pct",
    "met_requests_pct",
    "volunteering_pct",
    "leaking_pct",
    "uninformative_pct",
    "asked_again_pct",
    "echoing_pct",
    "asking_agreement_pct",
    "asking_kappa",
    "giving_agreement_pct",
    "giving_kappa",
    "right_agreement_pct",
    "right_kappa",
)
ORDERS: Mapping[str, tuple[str, ...]] = {
    "condition": CONDITIONS,
    "dimension": ("all", *DIMENSIONS),
    "category": (
        "question_quality",
        "question_targeting",
        "information_integration",
        "over_clarification",
        "under_clarification",
        "timing_and_strategy",
        "response_misinterpretation",
    ),
    "ambiguity_class": ("outcome-critical", "divergent", "benign"),
    "measure": _MEASURES,
    "ended_by": (
        "submitted",
        "gave_up",
        "turn_limit",
        "action_limit",
        "cost_limit",
        "time_limit",
        "context_limit",
        "output_limit",
        "refused",
        "resource_abuse",
    ),
    "finish_reason": ("all",),
    "asserted": ("all",),
    "severity": ("delete", "vaguify", "genericize", "decoy", "environment"),
    "fault": (
        "conflicting_instructions",
        "stale_information",
        "missing_authority",
        "underspecified_follow_up",
        "all",
    ),
    "control_kind": ("all", "unmodified", "benign-removal"),
    "strategy": ("none",),
    "persona": ("none",),
    "variant_set": ("evaluated", "registered"),
    "task_id": ("all",),
    "timing": tuple(str(percentage) for percentage in range(0, 101, 10)),
    "split": ("overall", "ambiguity_class", "dimension"),
    "level": ("all", "outcome-critical", "divergent", "benign", *DIMENSIONS),
    "purpose": ("agent", "user_simulator", "grader_and_judge", "all"),
}
