"""Grading a desk trial again from what is stored: the files that its grader read, and its final answer.

A grader's checks are functions of these. The grader of the trial stored every file that it read and that was there;
what it looked for in vain it named in the details of its results. A file of which neither is known is never taken as
missing: the trial cannot be graded again.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from recorder.events import AnyEvent, ArtifactStored
from recorder.values import Task
from runners.benchmarks.desk.delivered import Delivered, Unmet
from runners.benchmarks.desk.template import DeskTask
from runners.benchmarks.protocol import Grade
from runners.grading import scored
from runners.judging.stored import StoredTrial
from runners.regrading.protocol import NotGradable, ReadEvents, Regraded, differing


class StoredDelivery(Delivered):
    """What a trial left behind, as far as it is stored.

    Args:
        files: Name -> bytes of the stored files.
        final_answer: What the agent submitted.
        is_absent: Whether a name that is not stored is known not to have been there.
    """

    def __init__(self, files: Mapping[str, bytes], final_answer: str, is_absent: Callable[[str], bool]) -> None:
        super().__init__(Path(), final_answer)
        self._files = files
        self._is_absent = is_absent

    def content(self, name: str) -> bytes:
        """Return the bytes of a stored file.

        Raises:
            Unmet: It was not there.
            NotGradable: It was not kept, so nobody knows.
        """
        if name in self._files:
            return self._files[name]
        if self._is_absent(name):
            raise Unmet(f"{name} is missing")
        raise NotGradable(f"{name} was not kept: the grader of the trial did not look at it")


class DeskChecks:
    """The desk graders of this version.

    Args:
        tasks: The tasks of this version by their digests.
        grader: The name of the grader's version.
        load: Gives the bytes of an artifact by its SHA-256; raises FileNotFoundError.
    """

    benchmark = "desk"

    def __init__(self, tasks: Mapping[str, DeskTask], grader: str, load: Callable[[str], bytes]) -> None:
        self.grader = grader
        self.grading_id = f"regrade:{grader}"
        self._tasks = tasks
        self._load = load

    def check(self, trial: StoredTrial) -> None:
        """Return quietly if a trial may be gradable.

        Raises:
            NotGradable: Its task is not one of this version, or it was not recorded here.
        """
        started = trial.started
        if started.origin != "recorded":
            raise NotGradable(f"it was imported ({started.origin}), without its files")
        if started.task_digest not in self._tasks:
            raise NotGradable("its task has changed since")

    def has_graded(self, trial: StoredTrial, done: Mapping[str, float]) -> bool:
        """Return whether a trial was graded again by these graders; its primary results may well be theirs too."""
        return bool(done)

    def regrade(self, trial: StoredTrial, task: Task, read: ReadEvents) -> Regraded:
        """Return the new results of a trial; see the protocol."""
        self.check(trial)
        answer = trial.finished.final_answer
        if answer is None:
            raise NotGradable("its final answer is unknown")
        own = self._tasks[trial.started.task_digest]
        is_same = trial.started.grader == self.grader
        left = StoredDelivery(
            self._files(read()),
            answer,
            lambda name: is_same or _was_absent(name, trial),
        )
        try:
            grade = own.grade_delivered(left)
        except NotGradable:
            raise
        except Exception as error:
            raise NotGradable(f"a check crashed: {type(error).__name__}: {error}") from error
        return self._regraded(trial, own, grade)

    def _files(self, stream: Sequence[AnyEvent]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for event in stream:
            if isinstance(event, ArtifactStored) and event.role == "deliverable":
                try:
                    found[event.name] = self._load(event.sha256)
                except FileNotFoundError:
                    raise NotGradable(f"the bytes of {event.name} are not in the store") from None
        return found

    def _regraded(self, trial: StoredTrial, task: DeskTask, grade: Grade) -> Regraded:
        events = scored(
            grade.results,
            task.recorded_checkpoints(),
            self.grader,
            grading_id=self.grading_id,
            graded_stream_id=trial.stream_id,
        )
        return Regraded(
            trial=trial,
            events=events,
            differing_results=differing(trial, events),
            is_success_changed=grade.is_success != trial.finished.is_success,
        )


def _was_absent(name: str, trial: StoredTrial) -> bool:
    """Whether the grader of a trial said of a file that it was not there, or too large to be read."""
    said = [result.details for result in trial.results.values()]
    return any(details == f"{name} is missing" or details.startswith(f"{name} is larger than") for details in said)
