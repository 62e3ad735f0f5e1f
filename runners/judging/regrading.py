"""Grade the trials of a store again with deterministic graders, and record the new results beside the old ones."""

import os
from collections.abc import Callable, Mapping
from functools import partial

import anyio.to_thread

from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks
from lhaw_record.runners.judging.driver import RunSettings, judge_each
from lhaw_record.runners.judging.stored_claims import StoredMatcher
from lhaw_record.runners.judging.stored_desk import DeskChecks
from lhaw_record.runners.judging.stored_graders import (
    OFFERED,
    DeterministicGrader,
    GradingTally,
    NotGradable,
    RegradingResult,
)
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials, StreamReader, load_stored
from lhaw_record.runners.models.llm_jobs.paid_work import Job, PaidWork
from lhaw_record.runners.runs.run_record import WorkCounts, experiments_of, held


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

    async def record(self) -> None:
        """Grade every trial that is not graded yet, and record the new results of each trial together."""
        with held(self._store, experiments_of(self._store, self._experiment_id)) as snapshot:
            stored = load_stored(snapshot, self._experiment_id)
            names = [grader.grader for grader in self._graders.values()]
            settings = RunSettings(
                kind="grade",
                config={"graders": names, "experiment": self._experiment_id},
                redactor=Redactor(secrets_of(os.environ)),
            )
            job = partial(self._job, stored, StreamReader(self._store, snapshot))
            await judge_each(
                self._store, self._owed(stored), lambda trial: trial.experiment_id, settings, self.work, job
            )

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
