"""The daemon itself: keeps a live run for every experiment that is owed one, and knows how each stands.

It decides nothing that the queue does not say. What it holds beside the queue is gone after a restart without loss:
which runs are live, how many trials are planned, and why an experiment cannot run now.
"""

import sys
import time
import traceback
from collections import Counter
from functools import lru_cache
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from recorder.errors import RecorderError, RecordingFailed
from recorder.events import CONTROL, AnyEvent
from recorder.store import Store
from recorder.stream import Stream
from runners.daemon.hub import Hub
from runners.daemon.live import Counts, LiveRun
from runners.daemon.messages import DaemonFacts, Detail, Overview, ShownState, TrialChange
from runners.daemon.queue import Entry, Queue
from runners.daemon.slots import Slots
from runners.errors import ExperimentError, RunnerError
from runners.executors.local import LocalExecutor
from runners.experiment import Experiment
from runners.run import Control, Reporter, prepare_experiment, run_controlled, stored_index
from runners.run_record import run_finished

RETRY_S = 30.0
_SECONDS_BETWEEN_OVERVIEWS = 0.25


class Daemon:
    """Runs what its queue owes.

    Args:
        store: The store that it serves.
        stream: Where it records what it is asked.
        queue: What the store says so far.
        facts: Which daemon this is.
    """

    def __init__(self, store: Store, stream: Stream, queue: Queue, facts: DaemonFacts) -> None:
        self.queue = queue
        self.slots = Slots(facts.max_trials)
        self.hub = Hub(facts.daemon_id, lambda name: msgspec.json.encode(self.snapshot(name)))
        self.live: dict[str, LiveRun] = {}
        self.problems: dict[str, str] = {}
        self.ordering = anyio.Lock()
        self.store = store
        self._stream = stream
        self._facts = facts
        self._counts: dict[str, Counts] = {}
        self._retry_at: dict[str, float] = {}
        self._changed: set[str] = set()
        self._wake = anyio.Event()
        self._failure: RecordingFailed | None = None
        self.is_stopping = False

    async def record(self, event: AnyEvent) -> None:
        """Record an order and take it into account.

        Raises:
            RecordingFailed: It could not be made durable. The daemon ends: it can take no order any more.
        """
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
        """Forget why an experiment could not run, and what was counted of it."""
        self.problems.pop(name, None)
        self._retry_at.pop(name, None)
        self._counts.pop(name, None)

    def changed(self, name: str) -> None:
        """Tell the followers of an experiment soon how it stands."""
        self._changed.add(name)

    def stop(self) -> None:
        """Start nothing more and end when what is running has ended."""
        self.is_stopping = True
        for live in self.live.values():
            live.stop()
        self._wake.set()

    def cancel(self) -> None:
        """End at once; what is running is owed again."""
        for live in self.live.values():
            live.cancel()

    async def supervise(self) -> None:
        """Keep a live run for every experiment that is owed one, until the daemon is stopped.

        Raises:
            RecordingFailed: An order could not be recorded.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_changes)
            tasks.start_soon(self._count_idle)
            while not self.is_stopping or self.live:
                self._wake = anyio.Event()
                for entry in self.queue.entries.values():
                    if self._is_owed(entry):
                        live = LiveRun(entry.name, self.queue, self.slots, entry.concurrency, self._tell_trial)
                        self.live[entry.name] = live
                        tasks.start_soon(self._run, entry, live)
                with anyio.move_on_after(self._patience_s()):
                    await self._wake.wait()
            tasks.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    def _is_owed(self, entry: Entry) -> bool:
        is_retried = entry.name not in self.problems or time.monotonic() >= self._retry_at.get(entry.name, float("inf"))
        return entry.state == "waiting" and entry.name not in self.live and not self.is_stopping and is_retried

    def _patience_s(self) -> float | None:
        """How long to wait for news: until the next experiment is to be tried again."""
        waiting = [at for name, at in self._retry_at.items() if name not in self.live]
        return max(0.0, min(waiting) - time.monotonic()) if waiting and not self.is_stopping else None

    async def _run(self, entry: Entry, live: LiveRun) -> None:
        name = entry.name
        self.problems.pop(name, None)
        self._retry_at.pop(name, None)
        try:
            await self._run_once(entry, live)
        except ExperimentError as error:
            self.problems[name] = str(error)
        except (RecorderError, RunnerError, OSError) as error:
            self.problems[name] = f"{error} (tried again every {RETRY_S:.0f} s)"
            self._retry_at[name] = time.monotonic() + RETRY_S
        except Exception as error:  # noqa: BLE001 - a fault of ours stops this experiment, is shown, and spares the others
            traceback.print_exc(file=sys.stderr)
            self.problems[name] = f"a fault of lhaw-record: {type(error).__name__}: {error}"
        finally:
            del self.live[name]
            if live.counts is not None:
                self._counts[name] = live.counts
            self.changed(name)
            self._wake.set()

    async def _run_once(self, entry: Entry, live: LiveRun) -> None:
        experiment = experiment_of(entry)
        prepared = await anyio.to_thread.run_sync(prepare_experiment, experiment, Path(entry.submitted.path))
        self.changed(entry.name)

        def on_change(_: object) -> None:
            self.slots.changed()
            self.changed(entry.name)

        control = Control(
            drive=live.drive,
            before=entry.before(experiment.retry.max_attempts),
            may_take=self.slots.may_take,
            watched=live.watched,
        )
        reporter = Reporter(change=on_change)
        summary = await run_controlled(prepared, self.store.root, reporter, control, LocalExecutor())
        self.queue.apply(entry.name, run_finished("", summary))

    def _tell_trial(self, change: TrialChange) -> None:
        self.hub.publish("trial", change.experiment, change)
        self.changed(change.experiment)

    async def _tell_changes(self) -> None:
        """Publish how changed experiments stand, each a few times a second at most."""
        while True:
            names, self._changed = self._changed, set()
            for name in names & self.queue.entries.keys():
                self.hub.publish("experiment", name, self.detail(name, has_live=False))
            await anyio.sleep(_SECONDS_BETWEEN_OVERVIEWS)

    async def _count_idle(self) -> None:
        """Count the trials of experiments that are owed no run, so that they are shown in full after a restart."""
        for entry in list(self.queue.entries.values()):
            if entry.state != "waiting" and entry.name not in self._counts:
                try:
                    self._counts[entry.name] = await anyio.to_thread.run_sync(_counted, entry, self.store.root)
                except (RecorderError, RunnerError):
                    continue  # its file cannot be planned here any more; it is shown without counts
                self.changed(entry.name)

    def facts(self) -> DaemonFacts:
        """Return which daemon this is and how busy."""
        return msgspec.structs.replace(self._facts, running=self.slots.taken)

    def snapshot(self, name: str | None) -> dict[str, object]:
        """Return everything as it is now, or one experiment; a name that is not there gives nothing."""
        names = self.queue.entries if name is None else {name} & self.queue.entries.keys()
        return {"experiments": [self.detail(each) for each in names]}

    def detail(self, name: str, *, has_live: bool = True) -> Detail:
        """Return how an experiment stands, cell by cell."""
        live, counts = self.live.get(name), self.counts(name)
        running = Counter((trial.agent, trial.condition) for trial in live.running.values()) if live else Counter()
        return Detail(
            overview=self.overview(name),
            path=self.queue.entries[name].submitted.path,
            cells=counts.cells(running) if counts else (),
            live=tuple(live.running.values()) if live and has_live else (),
        )

    def counts(self, name: str) -> Counts | None:
        """Return the counts of an experiment's trials, if it was planned here."""
        live = self.live.get(name)
        return (live.counts if live else None) or self._counts.get(name)

    def overview(self, name: str) -> Overview:
        """Return how an experiment stands, at a glance."""
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
            left_s=live.left_s if live else None,
            failures=dict(tally.failures),
            submitted_at_us=entry.submitted_at_us,
            submitted_by=entry.submitted.by,
            problem=self.problems.get(name),
        )

    def given_up(self, entry: Entry) -> tuple[str, ...]:
        """Return the trials of an experiment that are not attempted again unless somebody asks."""
        experiment = _experiment_or_none(entry)
        return tuple(sorted(entry.before(experiment.retry.max_attempts).given_up)) if experiment else ()

    def _state(self, entry: Entry, live: LiveRun | None) -> ShownState:
        if live is not None:
            return "cancelling" if live.is_cancelled else "pausing" if live.is_stopping else "running"
        return "problem" if entry.state == "waiting" and entry.name in self.problems else entry.state


def experiment_of(entry: Entry) -> Experiment:
    """Return the experiment as it was submitted.

    Raises:
        ExperimentError: This version cannot read it.
    """
    try:
        return _decoded(entry.submitted.config_json)
    except msgspec.ValidationError as error:
        raise ExperimentError(
            f"{entry.name}: this version cannot read what was submitted ({error}); submit again"
        ) from error


@lru_cache(maxsize=256)
def _decoded(config_json: str) -> Experiment:
    return msgspec.json.decode(config_json, type=Experiment)


def _experiment_or_none(entry: Entry) -> Experiment | None:
    try:
        return experiment_of(entry)
    except ExperimentError:
        return None


def _counted(entry: Entry, root: Path) -> Counts:
    prepared = prepare_experiment(experiment_of(entry), Path(entry.submitted.path))
    return Counts(prepared.plan.trials, stored_index(prepared, root).finished.__contains__)
