"""Grade the trials of a store again with deterministic graders, and record the new results beside the old ones."""

import os
from collections.abc import Callable, Mapping
from functools import partial

import anyio
import anyio.to_thread

from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.host.serving import interruptibly
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials, StreamReader, load_stored
from lhaw_record.runners.runs.supplementary_run import Counts, experiments_of, held, recorded_run


def deterministic_graders(store: Store, kind: str | None = None) -> dict[str, DeterministicGrader]:
    """Return the deterministic graders of this version by benchmark."""
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
        self.ledger = Ledger(self._graders, kind)
        self._store = store
        self._experiment_id = experiment_id
        self._on_change = on_change
        self._looked_at = 0
        self._total = 0
        self.is_stopped = False

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
            reader = StreamReader(self._store, snapshot)
            owed = self._owed(stored)
            for experiment_id in dict.fromkeys(trial.experiment_id for trial in owed):
                if self.is_stopped:
                    continue
                trials = [trial for trial in owed if trial.experiment_id == experiment_id]
                counts = Counts(len(trials))
                names = [grader.grader for grader in self._graders.values()]
                config = {"graders": names, "experiment": self._experiment_id}
                redactor = Redactor(secrets_of(os.environ))
                async with recorded_run(
                    self._store, experiment_id, "grade", config, counts, redactor=redactor
                ) as stream:
                    work = partial(self._record_all, trials, stored, reader, stream, counts)
                    await interruptibly(work, self._stop)
                    counts.outcome = "interrupted" if self.is_stopped else "completed"

    def _stop(self) -> bool:
        is_new = not self.is_stopped
        self.is_stopped = True
        return is_new

    def _owed(self, stored: StoredTrials) -> list[StoredTrial]:
        owed = self.ledger.owed(stored)
        self._total = len(owed)
        return owed

    async def _record_all(
        self, trials: list[StoredTrial], stored: StoredTrials, reader: StreamReader, stream: Stream, counts: Counts
    ) -> None:
        for trial in trials:
            if self.is_stopped:
                return
            regraded = await anyio.to_thread.run_sync(self._try, trial, stored, reader)
            if regraded is None:
                counts.failed += 1
            else:
                await stream.append(*regraded.events)
                counts.done += 1

    def _try(self, trial: StoredTrial, stored: StoredTrials, reader: StreamReader) -> RegradingResult | None:
        """Grade one trial and count the outcome."""
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
