"""Selection: which tasks variants are made of, which variants make the benchmark, and its card."""

from generators.selection.choosing import Candidate, choose, quotas
from generators.selection.competence import AgentValue, TaskCompetence, competent_tasks, judge_task
from generators.selection.selectable import REASONS, Selectable, selectable
from generators.selection.selecting import Selection, Wish, find_selection, latest_selections, select_benchmark

__all__ = [
    "REASONS",
    "AgentValue",
    "Candidate",
    "Selectable",
    "Selection",
    "TaskCompetence",
    "Wish",
    "choose",
    "competent_tasks",
    "find_selection",
    "judge_task",
    "latest_selections",
    "quotas",
    "select_benchmark",
    "selectable",
]
