"""Selection: chooses tasks within reach of agents and the variants of a benchmark, and writes its dataset and card."""

from lhaw_record.generators.selection.competence import AgentValue, TaskCompetence, competent_tasks, judge_task
from lhaw_record.generators.selection.eligibility import REASONS, VOTE, EligibleVariants, eligible_variants
from lhaw_record.generators.selection.quotas import Candidate, choose, quotas
from lhaw_record.generators.selection.selection import (
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
