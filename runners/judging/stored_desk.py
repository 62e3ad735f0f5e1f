"""Grade a desk trial again from its stored data: the files that its grader read, and its final answer.

The trial's grader stored every existing file that it read, and named missing files in the details of its results. A
file that is neither stored nor named is never assumed to be missing. Such a trial cannot be graded again.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from lhaw_record.recorder.events import AnyEvent, ArtifactStored
from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import CheckpointNotMet, OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.scoring import grade_desk
from lhaw_record.runners.environments.benchmarks.desk.task import DeskTask, modules_of
from lhaw_record.runners.environments.grading.confined_grading import failed_grade, read_apart, scored
from lhaw_record.runners.environments.grading.grade import Grade
from lhaw_record.runners.judging.stored_graders import NotGradable, ReadEvents, RegradingResult, differing
from lhaw_record.runners.judging.stored_trials import StoredTrial


class StoredDelivery(OfficeDeliverables):
    """The stored part of what a trial left behind. Reading a file that was not kept raises NotGradable.

    Args:
        files: Maps names to the bytes of the stored files.
        final_answer: The answer that the agent submitted.
        said: The details of the trial's results, which name missing files. None if this grader graded the trial,
            because it looks for the same files.
    """

    def __init__(self, files: Mapping[str, bytes], final_answer: str, said: Sequence[str] | None) -> None:
        super().__init__(None, final_answer)
        self._files = files
        self._said = said

    def _bytes(self, name: str) -> bytes:
        if name in self._files:
            return self._files[name]
        if self._said is None or _was_absent(name, self._said):
            raise CheckpointNotMet(f"{name} is missing")
        raise NotGradable(f"{name} was not kept: the grader of the trial did not look at it")


class StoredGrade(msgspec.Struct, frozen=True):
    """The outcome of grading stored files: a grade, or the reason why there is none."""

    grade: Grade | None = None
    not_gradable: str = ""


def grade_stored(left: StoredDelivery, task: DeskTask) -> StoredGrade:
    """Grade the stored files of a trial. Runs in the child process."""
    try:
        grade = grade_desk(left, task)
    except NotGradable as problem:
        return StoredGrade(not_gradable=str(problem))
    return StoredGrade(msgspec.structs.replace(grade, artifacts=()))


class DeskChecks:
    """The desk graders of this version.

    Args:
        tasks: The tasks of this version by their digests.
        grader: The identity of this version's grader.
        load: Returns the bytes of an artifact by its SHA-256. Raises FileNotFoundError.
    """

    benchmark = "desk"

    def __init__(self, tasks: Mapping[str, DeskTask], grader: str, load: Callable[[str], bytes]) -> None:
        self.grader = grader
        self.grading_id = f"regrade:{grader}"
        self._tasks = tasks
        self._load = load

    def check(self, trial: StoredTrial) -> None:
        started = trial.started
        if started.origin != "recorded":
            raise NotGradable(f"it was imported ({started.origin}), without its files")
        if started.task_digest not in self._tasks:
            raise NotGradable("its task has changed since")

    def has_graded(self, trial: StoredTrial, done: Mapping[str, float]) -> bool:
        """Return whether these graders have graded a trial again. Its primary results do not count."""
        return bool(done)

    def regrade(self, trial: StoredTrial, task: Task, read: ReadEvents) -> RegradingResult:
        self.check(trial)
        answer = trial.finished.final_answer
        if answer is None:
            raise NotGradable("its final answer is unknown")
        own = self._tasks[trial.started.task_digest]
        said = [result.details for result in trial.results.values()]
        is_same = trial.started.grader == self.grader
        left = StoredDelivery(self._files(read()), answer, None if is_same else said)
        return self._regraded(trial, own, _graded(left, own))

    def _files(self, stream: Sequence[AnyEvent]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for event in stream:
            if isinstance(event, ArtifactStored) and event.role == "deliverable":
                try:
                    found[event.name] = self._load(event.sha256)
                except FileNotFoundError:
                    raise NotGradable(f"the bytes of {event.name} are not in the store") from None
        return found

    def _regraded(self, trial: StoredTrial, task: DeskTask, grade: Grade) -> RegradingResult:
        events = scored(
            grade.results,
            task.recorded_checkpoints(),
            self.grader,
            grading_id=self.grading_id,
            graded_stream_id=trial.stream_id,
        )
        return RegradingResult(
            trial=trial,
            events=events,
            differing_results=differing(trial, events),
            is_success_changed=grade.is_success != trial.finished.is_success,
        )


def _graded(left: StoredDelivery, task: DeskTask) -> Grade:
    """Grade in a child process with limits, as at the end of a trial."""
    try:
        found, _ = read_apart(grade_stored, left, task, returns=StoredGrade, modules=modules_of(task))
    except CheckpointNotMet as unmet:
        return failed_grade(task.recorded_checkpoints(), str(unmet))
    except GraderError as error:
        raise NotGradable(str(error)) from error
    if found.grade is None:
        raise NotGradable(found.not_gradable)
    return found.grade


def _was_absent(name: str, said: Sequence[str]) -> bool:
    """Return whether the trial's grader reported a file as missing, or as too large to be read."""
    return any(details == f"{name} is missing" or details.startswith(f"{name} is larger than") for details in said)
