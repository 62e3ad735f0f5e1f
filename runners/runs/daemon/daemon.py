"""The daemon, which runs every waiting experiment and reports the state of all experiments.

Every decision follows from the queue. Everything else that the daemon knows (live runs, counts of planned trials, why
an experiment cannot run) is computed again after a restart.
"""

import sys
import time
import traceback
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.errors import RecorderError, RecordingFailed
from lhaw_record.recorder.events import CONTROL, AnyEvent
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.base.errors import ExperimentError, ModelsOutOfReach, RunnerError
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.models.endpoints.door import door_states
from lhaw_record.runners.runs.daemon.live import LiveRun, Slots, TrialCounts
from lhaw_record.runners.runs.daemon.live_events import Hub
from lhaw_record.runners.runs.daemon.messages import DaemonFacts, Detail, Listing, Overview, ShownState, TrialChange
from lhaw_record.runners.runs.daemon.queue import Queue, QueueEntry
from lhaw_record.runners.runs.executors.local import LocalExecutor
from lhaw_record.runners.runs.live_progress import Reporter, endpoint_words
from lhaw_record.runners.runs.preparation import prepare_experiment, stored_index
from lhaw_record.runners.runs.run import RunControl, run_controlled
from lhaw_record.runners.runs.run_record import run_finished

if TYPE_CHECKING:
    from lhaw_record.runners.agents.programs.leases import Leases

RETRY_S, LONGEST_RETRY_S = 30.0, 1800.0
"""Seconds until the first retry of an experiment, and the most until a later one."""
_SECONDS_BETWEEN_OVERVIEWS = 0.25


class Daemon:
    """Runs the experiments of its queue.

    Args:
        store: The store that the daemon serves.
        stream: The stream in which the daemon records the orders that it receives.
        queue: The queue, rebuilt from the events of the store.
        facts: The identity of the daemon and its limit on running trials.
        leases: The leases of its trials. Without them, no agent can be leased.
    """

    def __init__(
        self, store: Store, stream: Stream, queue: Queue, facts: DaemonFacts, leases: "Leases | None" = None
    ) -> None:
        self.queue = queue
        self.slots = Slots(facts.max_trials)
        self.hub = Hub(lambda name: msgspec.json.encode(self.snapshot(name)))
        self.live: dict[str, LiveRun] = {}
        self.problems: dict[str, str] = {}
        self.ordering = anyio.Lock()
        self.store = store
        self.leases = leases
        self._stream = stream
        self._facts = facts
        self._counts: dict[str, TrialCounts] = {}
        self._retry_at: dict[str, float] = {}
        self._retry_s: dict[str, float] = {}
        self._changed: set[str] = set()
        self._wake = anyio.Event()
        self._failure: RecordingFailed | None = None
        self.is_stopping = False

    async def record(self, event: AnyEvent) -> None:
        """Record an order, then apply it to the queue."""
        assert isinstance(event, CONTROL)
        try:
            await self._stream.append(event)
        except RecordingFailed as error:
            self._failure = error
            self.stop()
            raise
        self.queue.apply(event.experiment, event, at_us=time.time_ns() // 1000)
        self.changed(event.experiment)
        self._wake.set()

    def settle(self, name: str) -> None:
        """Forget the problem and the trial counts of an experiment."""
        self.problems.pop(name, None)
        self._retry_at.pop(name, None)
        self._retry_s.pop(name, None)
        self._counts.pop(name, None)

    def changed(self, name: str) -> None:
        self._changed.add(name)

    def stop(self) -> None:
        """Start no further trials, and stop the daemon when the running trials have ended."""
        self.is_stopping = True
        for live in self.live.values():
            live.stop()
        self._wake.set()

    def cancel(self) -> None:
        """Stop the running trials now. They run again when the daemon is restarted."""
        for live in self.live.values():
            live.cancel()

    async def supervise(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_changes)
            tasks.start_soon(self._count_idle)
            while not self.is_stopping or self.live:
                self._wake = anyio.Event()
                for entry in self.queue.entries.values():
                    if self._should_run(entry):
                        live = LiveRun(entry.name, self.queue, self.slots, entry.concurrency, self._tell_trial)
                        self.live[entry.name] = live
                        tasks.start_soon(self._run, entry, live)
                with anyio.move_on_after(self._patience_s()):
                    await self._wake.wait()
            tasks.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    def _should_run(self, entry: QueueEntry) -> bool:
        is_retried = entry.name not in self.problems or time.monotonic() >= self._retry_at.get(entry.name, float("inf"))
        return entry.state == "waiting" and entry.name not in self.live and not self.is_stopping and is_retried

    def _patience_s(self) -> float | None:
        """Return the seconds until the next retry of an experiment with a problem, or None if no retry is due."""
        waiting = [at for name, at in self._retry_at.items() if name not in self.live]
        return max(0.0, min(waiting) - time.monotonic()) if waiting and not self.is_stopping else None

    async def _run(self, entry: QueueEntry, live: LiveRun) -> None:
        name = entry.name
        self.problems.pop(name, None)
        self._retry_at.pop(name, None)
        try:
            await self._run_once(entry, live)
        except (RecorderError, RunnerError, OSError) as error:
            if isinstance(error, ExperimentError) and not isinstance(error, ModelsOutOfReach):
                self.problems[name] = str(error)
            else:
                self._try_again_later(name, str(error))
        except Exception as error:  # noqa: BLE001 - a bug is shown, and stops this experiment only
            traceback.print_exc(file=sys.stderr)
            self.problems[name] = f"an internal error of lhaw-record: {type(error).__name__}: {error}"
        finally:
            del self.live[name]
            if live.counts is not None:
                self._counts[name] = live.counts
            self.changed(name)
            self._wake.set()

    async def _run_once(self, entry: QueueEntry, live: LiveRun) -> None:
        experiment = experiment_of(entry)
        prepared = await anyio.to_thread.run_sync(prepare_experiment, experiment, Path(entry.submitted.path))
        self.changed(entry.name)

        def on_change(_: object) -> None:
            self.slots.changed()
            self.changed(entry.name)

        control = RunControl(
            drive=live.drive,
            prior=entry.prior_failures(experiment.retry.max_attempts),
            may_take=self.slots.may_take,
            watched=live.watched,
        )
        reporter = Reporter(change=on_change)
        summary = await run_controlled(prepared, self.store.root, reporter, control, LocalExecutor(self.leases))
        self.queue.apply(entry.name, run_finished("", summary))
        if summary.finished or summary.outcome != "paused":
            self._retry_s.pop(entry.name, None)
        if summary.outcome == "paused":
            self._try_again_later(entry.name, f"paused: {'; '.join(summary.pauses)}")

    def _try_again_later(self, name: str, problem: str) -> None:
        """Run an experiment again after a while, which doubles with each try that comes to nothing."""
        wait_s = self._retry_s.get(name, RETRY_S)
        self._retry_s[name] = min(2.0 * wait_s, LONGEST_RETRY_S)
        self.problems[name] = f"{problem} (tried again in {wait_s:.0f} s)"
        self._retry_at[name] = time.monotonic() + wait_s

    def _tell_trial(self, change: TrialChange) -> None:
        self.hub.publish("trial", change.experiment, change)
        self.changed(change.experiment)

    async def _tell_changes(self) -> None:
        """Publish the state of changed experiments, at most a few times a second for each."""
        while True:
            names, self._changed = self._changed, set()
            for name in names & self.queue.entries.keys():
                self.hub.publish("experiment", name, self.detail(name, has_live=False))
            await anyio.sleep(_SECONDS_BETWEEN_OVERVIEWS)

    async def _count_idle(self) -> None:
        """Count the trials of experiments that are not waiting, so that a restarted daemon can show the counts."""
        for entry in list(self.queue.entries.values()):
            if entry.state != "waiting" and entry.name not in self._counts:
                try:
                    self._counts[entry.name] = await anyio.to_thread.run_sync(_counted, entry, self.store.root)
                except (RecorderError, RunnerError):
                    continue  # its file cannot be planned here any more; it is shown without counts
                self.changed(entry.name)

    def facts(self) -> DaemonFacts:
        return msgspec.structs.replace(self._facts, running=self.slots.taken)

    def snapshot(self, name: str | None) -> dict[str, object]:
        """Return the state of one experiment, or of every experiment if ``name`` is None.

        An unknown name gives an empty list.
        """
        names = self.queue.entries if name is None else {name} & self.queue.entries.keys()
        return {"experiments": [self.detail(each) for each in names]}

    def detail(self, name: str, *, has_live: bool = True) -> Detail:
        """Return the state of an experiment with its cells. The live trials are left out if ``has_live`` is false."""
        live, counts = self.live.get(name), self.counts(name)
        running = Counter((trial.agent, trial.condition) for trial in live.running.values()) if live else Counter()
        return Detail(
            overview=self.overview(name),
            path=self.queue.entries[name].submitted.path,
            cells=counts.cells(running) if counts else (),
            live=tuple(live.running.values()) if live and has_live else (),
        )

    def counts(self, name: str) -> TrialCounts | None:
        """Return the trial counts of an experiment, or None if this daemon has not planned it yet."""
        live = self.live.get(name)
        return (live.counts if live else None) or self._counts.get(name)

    def overview(self, name: str) -> Overview:
        """Return an experiment's state, trial counts, spending and failures, without its cells."""
        entry, live, counts = self.queue.entries[name], self.live.get(name), self.counts(name)
        tally = self.queue.tally(name)
        experiment = _experiment_or_none(entry)
        given_up = live.scheduler.given_up if live and live.scheduler else self.given_up(entry)
        return Overview(
            name=name,
            state=self._state(entry, live),
            planned=counts.planned.total() if counts else None,
            finished=counts.finished.total() if counts else None,
            running=len(live.running) if live else 0,
            given_up=len(given_up),
            concurrency=entry.concurrency or (experiment.concurrency if experiment else 0),
            spent_usd=tally.spent_usd,
            unpriced=tally.unpriced,
            max_cost_usd=experiment.budget.max_cost_usd if experiment else None,
            left_s=live.scheduler.left_s if live and live.scheduler else None,
            failures=dict(tally.failures),
            submitted_at_us=entry.submitted_at_us,
            submitted_by=entry.submitted.by,
            problem=self.problems.get(name),
        )

    def listing(self) -> Listing:
        endpoints = tuple(map(endpoint_words, door_states()))
        return Listing(experiments=tuple(map(self.overview, self.queue.entries)), endpoints=endpoints)

    def given_up(self, entry: QueueEntry) -> tuple[str, ...]:
        """Return the ids of the failed trials that are attempted again only after a requeue, sorted."""
        experiment = _experiment_or_none(entry)
        return tuple(sorted(entry.prior_failures(experiment.retry.max_attempts).given_up)) if experiment else ()

    def _state(self, entry: QueueEntry, live: LiveRun | None) -> ShownState:
        if live is not None:
            return "cancelling" if live.is_cancelled else "pausing" if live.is_stopping else "running"
        return "problem" if entry.state == "waiting" and entry.name in self.problems else entry.state


def experiment_of(entry: QueueEntry) -> Experiment:
    try:
        return _decoded(entry.submitted.config_json)
    except msgspec.ValidationError as error:
        raise ExperimentError(
            f"{entry.name}: this version cannot read what was submitted ({error}); submit again"
        ) from error


@lru_cache(maxsize=256)
def _decoded(config_json: str) -> Experiment:
    return msgspec.json.decode(config_json, type=Experiment)


def _experiment_or_none(entry: QueueEntry) -> Experiment | None:
    try:
        return experiment_of(entry)
    except ExperimentError:
        return None


def _counted(entry: QueueEntry, root: Path) -> TrialCounts:
    prepared = prepare_experiment(experiment_of(entry), Path(entry.submitted.path))
    return TrialCounts(prepared.plan.trials, stored_index(prepared, root).finished)
