"""Grade the trials of a store again with deterministic graders, and record the new results beside the old ones.

The checks of desk read the files that the grader of the trial stored, and its final answer. A file that is neither
stored nor named in the details of a result is never assumed to be missing. Such a trial cannot be graded again.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import anyio.to_thread
import msgspec

from lhaw_record.recorder.events import AnyEvent, ArtifactStored
from lhaw_record.recorder.events.values import Task
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import OfficeDeliverables
from lhaw_record.runners.environments.benchmarks.desk.task import DeskTask, desk_tasks, grade_desk, modules_of
from lhaw_record.runners.environments.grading.confined_grading import read_apart
from lhaw_record.runners.environments.grading.deliverables import CheckpointNotMet
from lhaw_record.runners.environments.grading.grade import Grade, failed_grade, scored
from lhaw_record.runners.judging.judge_run import RecordedJob, RunSettings, judge_each
from lhaw_record.runners.judging.stored_claims import StoredMatcher
from lhaw_record.runners.judging.stored_graders import (
    OFFERED,
    DeterministicGrader,
    GradingTally,
    NotGradable,
    ReadEvents,
    RegradingResult,
    differing,
)
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials, StreamReader, load_stored
from lhaw_record.runners.models.llm_jobs.paid_work import Job, PaidWork
from lhaw_record.runners.runs.run_record import WorkCounts, experiments_of


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
        raise NotGradable(f"{name} was not kept: the grader of the trial did not read it")


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


def deterministic_graders(store: Store, kind: str | None = None) -> dict[str, DeterministicGrader]:
    desk = DeskBenchmark()
    digests = {task.task_id: task.task_digest for task in desk.tasks()}
    tasks = {digests[task.task_id]: task for task in desk_tasks()}
    graders: tuple[DeterministicGrader, ...] = (
        DeskChecks(tasks, desk.grader, partial(load_blob, store)),
        StoredMatcher(),
    )
    return {each.benchmark: each for each in graders if kind is None or kind in OFFERED[each.benchmark]}


class Regrading:
    """One invocation of grading, over every valid trial.

    Args:
        store: The store. It must be open for writing if results are recorded.
        experiment_id: The experiment whose trials are graded, or None for all.
        kind: Use only graders of this kind, or if None, the default grader of each benchmark.
        on_change: Called with the number of examined trials and the total.
    """

    def __init__(
        self,
        store: Store,
        experiment_id: str | None = None,
        kind: str | None = None,
        on_change: Callable[[int, int | None], None] = lambda done, total: None,
    ) -> None:
        self._graders: Mapping[str, DeterministicGrader] = deterministic_graders(store, kind)
        self.ledger = GradingTally(self._graders, kind)
        self._store = store
        self._experiment_id = experiment_id
        self._on_change = on_change
        self._looked_at = 0
        self._total = 0
        self.work = PaidWork(concurrency=1)

    def look(self) -> None:
        """Grade and compare every trial that is not graded yet, without recording the results."""
        experiments_of(self._store, self._experiment_id)
        snapshot = read_snapshot(self._store.root)
        stored = load_stored(snapshot, self._experiment_id)
        reader = StreamReader(self._store, snapshot)
        for trial in self._owed(stored):
            self._try(trial, stored, reader)

    async def run(self) -> None:
        """Grade every trial that is not graded yet, and record the new results of each trial together."""
        settings = RunSettings(
            kind="grade",
            config={
                "graders": [grader.grader for grader in self._graders.values()],
                "experiment": self._experiment_id,
            },
            experiment_id=self._experiment_id,
        )
        await judge_each(self._store, settings, self.work, self._jobs)

    def _jobs(self, stored: StoredTrials, reader: StreamReader) -> list[tuple[str, RecordedJob]]:
        return [(trial.experiment_id, partial(self._job, stored, reader, trial)) for trial in self._owed(stored)]

    def _owed(self, stored: StoredTrials) -> list[StoredTrial]:
        owed = self.ledger.owed(stored)
        self._total = len(owed)
        return owed

    def _job(
        self, stored: StoredTrials, reader: StreamReader, trial: StoredTrial, stream: Stream, counts: WorkCounts
    ) -> Job:
        async def grade() -> float:
            regraded = await anyio.to_thread.run_sync(self._try, trial, stored, reader)
            if regraded is not None:
                await stream.append(*regraded.events)
            counts.done += regraded is not None
            counts.failed += regraded is None
            return 0.0

        return grade

    def _try(self, trial: StoredTrial, stored: StoredTrials, reader: StreamReader) -> RegradingResult | None:
        self._looked_at += 1
        self._on_change(self._looked_at, self._total)
        task = stored.tasks[trial.started.task_digest]
        grader = self._graders[trial.started.benchmark]
        try:
            regraded = grader.regrade(trial, task, partial(reader.read, trial.stream_id))
        except NotGradable as problem:
            self.ledger.refuse(trial, problem)
            return None
        self.ledger.add(regraded)
        return regraded
