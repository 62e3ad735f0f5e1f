"""The interface of graders of stored trials, and the counts of what they have graded and cannot grade."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from lhaw_record.recorder.events import AnyEvent, CheckpointScored
from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials

ReadEvents = Callable[[], Sequence[AnyEvent]]
"""Reads the events of a trial's stream. Blocks."""
OFFERED: Mapping[str, tuple[str, ...]] = {"desk": ("checks",), "mcp_atlas": ("matcher", "judge")}
"""Maps each benchmark to its graders that can work from stored data. The first one is the default."""
GRADE_COLUMNS = (
    "experiment_id",
    "benchmark",
    "task_id",
    "found",
    "graded_before",
    "graded",
    "left",
    "differing_trials",
    "differing_results",
    "changed_successes",
    "not_gradable",
    "reason",
    "cost_usd",
)
_Key = tuple[str, str, str]


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
    return sum(trial.results[event.checkpoint_id].score != event.score for event in events)


class GradingTally:
    """The counts, by experiment, benchmark and task.

    Args:
        graders: Maps each benchmark to its chosen grader.
        kind: The kind of grader that was requested, for messages about benchmarks that do not have it.
    """

    def __init__(self, graders: Mapping[str, StoredGrader], kind: str | None = None) -> None:
        self.graders = graders
        self.has_refused = False
        """Whether a trial could not be graded although the store should contain everything that grading needs."""
        self._kind = kind
        self._groups: dict[_Key, Counter[str]] = defaultdict(Counter)
        self._reasons: dict[_Key, Counter[str]] = defaultdict(Counter)
        self._costs_usd: dict[_Key, float | None] = defaultdict(float)

    def owed(self, stored: StoredTrials) -> list[StoredTrial]:
        """Count every trial, and return the trials that still have to be graded."""
        owed = []
        for trial in stored.trials:
            group = self._groups[_key(trial)]
            group["found"] += 1
            try:
                grader = self._grader_of(trial)
                grader.check(trial)
            except NotGradable as problem:
                self.refuse(trial, problem)
                continue
            if grader.has_graded(trial, stored.graded.get((trial.stream_id, grader.grading_id), {})):
                group["graded_before"] += 1
            else:
                owed.append(trial)
        return owed

    def add(self, regraded: RegradingResult) -> None:
        """Count the new results of a trial. The trial counts as graded once no result is missing."""
        group = self._groups[_key(regraded.trial)]
        group["graded"] += regraded.is_success_changed is not None
        group["differing_results"] += regraded.differing_results
        group["differing_trials"] += regraded.differing_results > 0
        group["changed_successes"] += regraded.is_success_changed is True

    def pay(self, trial: StoredTrial, cost_usd: float | None) -> None:
        """Add the cost of a trial. An unknown price makes the cost of its group unknown."""
        before = self._costs_usd[_key(trial)]
        self._costs_usd[_key(trial)] = None if before is None or cost_usd is None else before + cost_usd

    def refuse(self, trial: StoredTrial, problem: NotGradable) -> None:
        self._groups[_key(trial)]["not_gradable"] += 1
        self._reasons[_key(trial)][str(problem)] += 1
        self.has_refused = self.has_refused or problem.is_finding

    @property
    def total(self) -> Counter[str]:
        total: Counter[str] = sum(self._groups.values(), Counter())
        total["left"] = sum(map(_left, self._groups.values()))
        return total

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per experiment, benchmark and task. ``reason`` is the most frequent one."""
        return [
            {
                **dict(zip(GRADE_COLUMNS, key, strict=False)),
                **{name: group[name] for name in GRADE_COLUMNS[3:-2]},
                "left": _left(group),
                "reason": next((reason for reason, _ in self._reasons[key].most_common(1)), None),
                "cost_usd": self._costs_usd[key],
            }
            for key, group in sorted(self._groups.items())
        ]

    def summary(self) -> Iterator[str]:
        """Yield a line with the totals, and one line for each reason why trials could not be graded."""
        total, met = self.total, {benchmark for _, benchmark, _ in self._groups}
        names = ", ".join(grader.grader for benchmark, grader in self.graders.items() if benchmark in met) or "nobody"
        yield (
            f"{total['graded']} trials graded by {names}, {total['graded_before']} before; "
            f"{total['differing_results']} results of {total['differing_trials']} trials differ"
        )
        reasons: Counter[str] = sum(self._reasons.values(), Counter())
        yield from (f"  {count} trials cannot be graded: {reason}" for reason, count in sorted(reasons.items()))

    def _grader_of(self, trial: StoredTrial) -> StoredGrader:
        benchmark = trial.started.benchmark
        if benchmark in self.graders:
            return self.graders[benchmark]
        if benchmark not in OFFERED:
            raise NotGradable(f"the graders of {benchmark} cannot work from stored files", is_finding=False)
        offered = ", ".join(OFFERED[benchmark])
        raise NotGradable(f"{benchmark} has no {self._kind}, its graders are: {offered}", is_finding=False)


def _left(group: Counter[str]) -> int:
    return group["found"] - group["graded_before"] - group["graded"] - group["not_gradable"]


def _key(trial: StoredTrial) -> _Key:
    return trial.experiment_id, trial.started.benchmark, trial.started.task_id
