"""The interface of a grader of stored trials: which trials it can grade, which it has graded, and its results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from lhaw_record.recorder.events import AnyEvent, CheckpointScored
from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.judging.stored_trials import StoredTrial

ReadEvents = Callable[[], Sequence[AnyEvent]]
"""Reads the events of a trial's stream. Blocks."""

OFFERED: Mapping[str, tuple[str, ...]] = {"desk": ("checks",), "mcp_atlas": ("matcher", "judge")}
"""Maps each benchmark to its graders that can work from stored data. The first one is the default."""


class NotGradable(Exception):
    """A trial cannot be graded again. The message says why.

    Args:
        message: The reason.
        is_finding: Whether the reason deserves attention. False if the source of an import never had the needed data.
    """

    def __init__(self, message: str, *, is_finding: bool = True) -> None:
        super().__init__(message)
        self.is_finding = is_finding


class RegradingResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new results of one trial, and how many of them differ from the primary ones.

    ``is_success_changed`` also takes results of earlier invocations into account. It is None while results are missing.
    """

    trial: StoredTrial
    events: tuple[CheckpointScored, ...]
    differing_results: int
    is_success_changed: bool | None


class StoredGrader(Protocol):
    """A grader of one benchmark.

    ``grader`` is its identity, which is recorded with every result. ``grading_id`` identifies its gradings after the
    trial.
    """

    benchmark: str
    grader: str
    grading_id: str

    def check(self, trial: StoredTrial) -> None:
        """Check whether a trial may be gradable.

        Raises:
            NotGradable: The trial is not gradable.
        """
        ...

    def has_graded(self, trial: StoredTrial, done: Mapping[str, float]) -> bool:
        """Return whether this grader has nothing left to grade in a trial.

        ``done`` maps checkpoint ids to the scores recorded so far.
        """
        ...


class DeterministicGrader(StoredGrader, Protocol):
    """A grader that does not ask a model: the same trial always gets the same results."""

    def regrade(self, trial: StoredTrial, task: Task, read: ReadEvents) -> RegradingResult:
        """Return the new results of a trial. Blocks: it reads the store.

        Raises:
            NotGradable: Data that grading needs is not stored, or a check crashes.
        """
        ...


def differing(trial: StoredTrial, events: Sequence[CheckpointScored]) -> int:
    """Return how many results differ from the primary results of the same checkpoints."""
    return sum(trial.results[event.checkpoint_id].score != event.score for event in events)
