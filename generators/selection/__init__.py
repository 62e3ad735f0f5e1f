"""Selection: chooses tasks within reach of agents and the variants of a benchmark, and writes its dataset and card."""

from lhaw_record.generators.selection.competence import competent_tasks
from lhaw_record.generators.selection.eligibility import REASONS, VOTE, eligible_variants
from lhaw_record.generators.selection.quotas import Candidate, choose, quotas
from lhaw_record.generators.selection.selection import (
    BenchmarkSelection,
    SelectionRequest,
    latest_selections,
    select_benchmark,
)

__all__ = [
    "REASONS",
    "VOTE",
    "BenchmarkSelection",
    "Candidate",
    "SelectionRequest",
    "choose",
    "competent_tasks",
    "eligible_variants",
    "latest_selections",
    "quotas",
    "select_benchmark",
]
