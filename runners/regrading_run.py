"""Grades the desk trials of a store again: which ones, what came of each, and the new results beside the old ones."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from recorder.blobs import load_blob
from recorder.reader import Snapshot, read_snapshot
from recorder.redaction import Redactor
from recorder.store import Store
from recorder.stream import Stream
from runners.afterwards import Counts, experiments_of, held, recorded_run
from runners.benchmarks.desk import DeskBenchmark
from runners.benchmarks.desk.registry import desk_tasks
from runners.interrupts import interruptibly
from runners.judging.stored import StoredTrial, load_stored
from runners.judging.streams import StreamReader
from runners.regrading import NotGradable, Regraded, Regrader

GRADE_COLUMNS = (
    "experiment_id",
    "benchmark",
    "task_id",
    "found",
    "graded_before",
    "graded",
    "differing_trials",
    "differing_results",
    "changed_successes",
    "not_gradable",
    "reason",
)


class Regrading:
    """One invocation: every valid trial, and what became of it.

    Args:
        store: The store; made for writing if results are recorded.
        experiment_id: Only its trials; None for all.
        on_change: Called with the number of trials that were looked at and that of all.
    """

    def __init__(
        self,
        store: Store,
        experiment_id: str | None = None,
        on_change: Callable[[int, int | None], None] = lambda done, total: None,
    ) -> None:
        benchmark = DeskBenchmark()
        digests = {task.task_id: task.task_digest for task in benchmark.tasks()}
        tasks = {digests[task.task_id]: task for task in desk_tasks()}
        self._regrader = Regrader(tasks, benchmark.grader, partial(load_blob, store))
        self._store = store
        self._experiment_id = experiment_id
        self._on_change = on_change
        self._groups: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        self._reasons: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        self._looked_at = 0
        self._total = 0
        self.is_stopped = False

    def look(self) -> None:
        """Grade and compare everything that was not graded yet, and record nothing.

        Raises:
            ExperimentError: A named experiment is not there.
        """
        experiments_of(self._store, self._experiment_id)
        for reader, trials in self._owed(read_snapshot(self._store.root)).values():
            for trial in trials:
                self._try(trial, reader)

    async def record(self) -> None:
        """Grade everything that was not graded yet, and record the new results, those of a trial at once.

        Raises:
            ExperimentError: A named experiment is not there.
            StoreError: Somebody is running one of the experiments.
            RecordingFailed: An event could not be made durable.
        """
        with held(self._store, experiments_of(self._store, self._experiment_id)) as snapshot:
            for experiment_id, (reader, trials) in self._owed(snapshot).items():
                if self.is_stopped or not trials:
                    continue
                counts = Counts(len(trials))
                config = {"command": "grade", "grader": self._regrader.grader, "experiment": self._experiment_id}
                async with recorded_run(self._store, experiment_id, config, counts, redactor=Redactor()) as stream:
                    await interruptibly(partial(self._record_all, trials, reader, stream, counts), self._stop)
                    counts.outcome = "interrupted" if self.is_stopped else "completed"

    @property
    def has_refused(self) -> bool:
        """Whether a desk trial could not be graded."""
        return any(group["not_gradable"] for (_, benchmark, _), group in self._groups.items() if benchmark == "desk")

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per experiment and task; the reason is the most frequent one."""
        return [
            {
                **dict(zip(GRADE_COLUMNS, key, strict=False)),
                **{name: group[name] for name in GRADE_COLUMNS[3:-1]},
                "reason": next((reason for reason, _ in self._reasons[key].most_common(1)), None),
            }
            for key, group in sorted(self._groups.items())
        ]

    def summary(self) -> Iterator[str]:
        """Yield what came of it in all, and every reason why a trial could not be graded."""
        total: Counter[str] = sum(self._groups.values(), Counter())
        yield (
            f"{total['graded']} trials graded by {self._regrader.grader}, {total['graded_before']} before; "
            f"{total['differing_results']} results of {total['differing_trials']} trials differ"
        )
        reasons: Counter[str] = sum(self._reasons.values(), Counter())
        yield from (f"  {count} trials cannot be graded: {reason}" for reason, count in sorted(reasons.items()))

    def _stop(self) -> bool:
        is_new = not self.is_stopped
        self.is_stopped = True
        return is_new

    def _owed(self, snapshot: Snapshot) -> dict[str, tuple[StreamReader, list[StoredTrial]]]:
        """The trials to look at by experiment, after counting all of them."""
        stored = load_stored(snapshot, self._experiment_id)
        reader = StreamReader(self._store, snapshot)
        owed: dict[str, tuple[StreamReader, list[StoredTrial]]] = {}
        for trial in stored.trials:
            group = self._groups[_key(trial)]
            group["found"] += 1
            try:
                self._regrader.check(trial)
            except NotGradable as problem:
                self._refuse(trial, problem)
                continue
            if (trial.stream_id, self._regrader.grading_id) in stored.graded:
                group["graded_before"] += 1
            else:
                owed.setdefault(trial.experiment_id, (reader, []))[1].append(trial)
        self._total = sum(len(trials) for _, trials in owed.values())
        return owed

    async def _record_all(
        self, trials: list[StoredTrial], reader: StreamReader, stream: Stream, counts: Counts
    ) -> None:
        for trial in trials:
            if self.is_stopped:
                return
            regraded = await anyio.to_thread.run_sync(self._try, trial, reader)
            if regraded is None:
                counts.failed += 1
            else:
                await stream.append(*regraded.events)
                counts.done += 1

    def _try(self, trial: StoredTrial, reader: StreamReader) -> Regraded | None:
        """Grade one trial and count what came of it."""
        self._looked_at += 1
        self._on_change(self._looked_at, self._total)
        try:
            regraded = self._regrader.regrade(trial, reader.read(trial.stream_id))
        except NotGradable as problem:
            self._refuse(trial, problem)
            return None
        group = self._groups[_key(trial)]
        group["graded"] += 1
        group["differing_results"] += regraded.differing_results
        group["differing_trials"] += regraded.differing_results > 0
        group["changed_successes"] += regraded.is_success_changed
        return regraded

    def _refuse(self, trial: StoredTrial, problem: NotGradable) -> None:
        self._groups[_key(trial)]["not_gradable"] += 1
        self._reasons[_key(trial)][str(problem)] += 1


def _key(trial: StoredTrial) -> tuple[str, str, str]:
    return trial.experiment_id, trial.started.benchmark, trial.started.task_id
