"""What a grader of stored trials is: which trials it can grade, which it has graded, and what comes of one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from recorder.events import AnyEvent, CheckpointScored
from recorder.values import Task
from runners.judging.stored import StoredTrial

ReadEvents = Callable[[], Sequence[AnyEvent]]
"""Read the events of a trial's stream. Blocking."""

OFFERED: Mapping[str, tuple[str, ...]] = {"desk": ("checks",), "mcp_atlas": ("matcher", "judge")}
"""Benchmark -> its graders that can work from what is stored, the one that is taken unasked first."""


class NotGradable(Exception):
    """A trial cannot be graded again; the message says why.

    Args:
        message: Why.
        is_finding: Whether somebody should look at it; not where a source of an import never told what is needed.
    """

    def __init__(self, message: str, *, is_finding: bool = True) -> None:
        super().__init__(message)
        self.is_finding = is_finding


class Regraded(msgspec.Struct, frozen=True, kw_only=True):
    """The new results of one trial, and how many differ from its primary ones.

    ``is_success_changed`` is also about results that an earlier invocation recorded; None while some are owed.
    """

    trial: StoredTrial
    events: tuple[CheckpointScored, ...]
    differing_results: int
    is_success_changed: bool | None


class StoredGrader(Protocol):
    """A grader of one benchmark.

    ``grader`` identifies it and stands with every result; ``grading_id`` names its later gradings.
    """

    benchmark: str
    grader: str
    grading_id: str

    def check(self, trial: StoredTrial) -> None:
        """Return quietly if a trial may be gradable.

        Raises:
            NotGradable: It is not.
        """
        ...

    def has_graded(self, trial: StoredTrial, done: Mapping[str, float]) -> bool:
        """Return whether nothing is owed to a trial, given what this grading recorded: checkpoint id -> score."""
        ...


class DeterministicGrader(StoredGrader, Protocol):
    """A grader that asks nobody: the same trial gets the same results."""

    def regrade(self, trial: StoredTrial, task: Task, read: ReadEvents) -> Regraded:
        """Return the new results of a trial. Blocking: it reads the store.

        Raises:
            NotGradable: Something that grading needs is not stored, or a check crashes on it.
        """
        ...


def differing(trial: StoredTrial, events: Sequence[CheckpointScored]) -> int:
    """Return how many results differ from the primary ones of the same checkpoints."""
    return sum(trial.results[event.checkpoint_id].score != event.score for event in events)
