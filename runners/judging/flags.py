"""The failure-mode flags of clarifying questions: seven categories with three flags each, by whom each is decided.

Source: LHAW, appendix J.1. Names stand without the prefix ``flag_``. Five flags follow from the recorded facts and are
computed in ``sql/marts/question_flags.sql``; the judge is asked for the others only.
"""

FLAGS: dict[str, tuple[str, str, str]] = {
    "question_quality": ("vague_questions", "compound_questions", "closed_questions"),
    "question_targeting": ("missed_critical_segments", "wrong_dimension_focus", "inferable_information_asked"),
    "information_integration": (
        "ignoring_user_response",
        "incorrect_information_application",
        "partial_information_utilization",
    ),
    "over_clarification": ("redundant_questions", "unnecessary_questions", "excessive_cost"),
    "under_clarification": ("premature_execution", "insufficient_question_depth", "false_confidence"),
    "timing_and_strategy": ("late_clarification", "upfront_question_dump", "inefficient_question_sequence"),
    "response_misinterpretation": (
        "literal_misunderstanding",
        "context_misapplication",
        "implicit_information_missed",
    ),
}
"""Category -> its flags, in the order of the source."""

COMPUTED = frozenset(
    {
        "redundant_questions",
        "excessive_cost",
        "insufficient_question_depth",
        "late_clarification",
        "upfront_question_dump",
    }
)
"""The flags that no judge is asked for."""

JUDGED: tuple[str, ...] = tuple(flag for flags in FLAGS.values() for flag in flags if flag not in COMPUTED)
"""The flags that a judge decides."""
