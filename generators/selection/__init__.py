"""Selection: chooses tasks within reach of agents and the variants of a benchmark, and writes its dataset and card."""

from generators.selection.competence import AgentValue, TaskCompetence, competent_tasks, judge_task
from generators.selection.eligibility import REASONS, VOTE, EligibleVariants, eligible_variants
from generators.selection.quotas import Candidate, choose, quotas
from generators.selection.selection import (
    Selection,
    SelectionRequest,
    find_selection,
    latest_selections,
    select_benchmark,
)

__all__ = [
    "REASONS",
    "VOTE",
    "AgentValue",
    "Candidate",
    "EligibleVariants",
    "Selection",
    "SelectionRequest",
    "TaskCompetence",
    "choose",
    "competent_tasks",
    "eligible_variants",
    "find_selection",
    "judge_task",
    "latest_selections",
    "quotas",
    "select_benchmark",
]
