"""One live run of an experiment: its scheduler while there is one, its running trials, its counts, and its brakes."""

import time
from collections import Counter
from collections.abc import Callable

import anyio

from runners.daemon.messages import Cell, LiveTrial, TrialChange, TrialState
from runners.daemon.queue import Queue
from runners.daemon.slots import Slots
from runners.errors import ungrouped
from runners.plan import PlannedTrial
from runners.scheduler import RunsTrials, Scheduler
from runners.trial import TrialOutcome

CellKey = tuple[str, str]


class Counts:
    """How many trials of each cell, an agent under a condition, are planned and finished."""

    def __init__(self, planned: tuple[PlannedTrial, ...], finished: Callable[[str], bool]) -> None:
        self.planned = Counter(cell_of(trial) for trial in planned)
        self.finished = Counter(cell_of(trial) for trial in planned if finished(trial.trial_id))

    def cells(self, running: Counter[CellKey]) -> tuple[Cell, ...]:
        """Return the cells in the order of the plan."""
        return tuple(
            Cell(
                agent=agent,
                condition=condition,
                planned=planned,
                finished=self.finished[agent, condition],
                running=running[agent, condition],
            )
            for (agent, condition), planned in self.planned.items()
        )


class LiveRun:
    """A run from its preparation to its last event.

    Args:
        name: The experiment's.
        queue: Learns how each attempt ended.
        slots: The limit that it shares with other runs.
        concurrency: Trials at a time instead of the file's; None: the file's.
        tell: Gets every attempt that begins or ends.
    """

    def __init__(
        self, name: str, queue: Queue, slots: Slots, concurrency: int | None, tell: Callable[[TrialChange], None]
    ) -> None:
        self.name = name
        self.scheduler: Scheduler | None = None
        self.counts: Counts | None = None
        self.running: dict[str, LiveTrial] = {}
        self.is_cancelled = False
        self.is_stopping = False
        self._queue = queue
        self._slots = slots
        self._concurrency = concurrency
        self._tell = tell
        self._scope = anyio.CancelScope()
        self._began = time.monotonic()

    async def drive(self, scheduler: Scheduler) -> None:
        """Run a scheduler until it ends, is stopped or is cancelled.

        Raises:
            RecorderError: An event could not be recorded.
        """
        if self._concurrency is not None:
            scheduler.retune(self._concurrency)
        self.counts = Counts(scheduler.planned, scheduler.finished.__contains__)
        self.scheduler = scheduler
        self._began = time.monotonic()
        if self.is_stopping:
            scheduler.stop()
        self._slots.join(scheduler)
        try:
            with ungrouped(), self._scope:
                await scheduler.run()
        finally:
            self._slots.leave(scheduler)

    def stop(self) -> None:
        """Start nothing more; what is running goes on to its end."""
        self.is_stopping = True
        if self.scheduler is not None:
            self.scheduler.stop()
            self._slots.changed()

    def retune(self, concurrency: int) -> None:
        """Run at most so many trials at a time from now on."""
        self._concurrency = concurrency
        if self.scheduler is not None:
            self.scheduler.retune(concurrency)
            self._slots.changed()

    def cancel(self) -> None:
        """End what is running, too."""
        self.is_cancelled = True
        self.stop()
        self._scope.cancel()

    def watched(self, runner: RunsTrials) -> RunsTrials:
        """Return a runner of attempts of which this run hears."""
        return _Watched(runner, self)

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest takes at the pace so far; None before the first trial has ended."""
        if self.scheduler is None:
            return None
        done = len(self.scheduler.finished) - self.scheduler.finished_before
        left = len(self.scheduler.planned) - len(self.scheduler.finished)
        return left * (time.monotonic() - self._began) / done if done else None

    def began(self, trial: PlannedTrial, attempt: int) -> LiveTrial:
        """Take note of an attempt that begins."""
        live = LiveTrial(
            trial_id=trial.trial_id,
            attempt=attempt,
            agent=trial.agent.name,
            condition=trial.condition,
            task_id=trial.task.task_id,
            variant_id=trial.variant.variant_id if trial.variant else None,
            began_at_us=time.time_ns() // 1000,
        )
        self.running[trial.trial_id] = live
        self._tell(TrialChange(experiment=self.name, state="started", trial=live))
        return live

    def ended(self, live: LiveTrial, outcome: TrialOutcome | None) -> None:
        """Take note of how an attempt ended; None: it was interrupted."""
        self.running.pop(live.trial_id, None)
        if outcome is None:
            self._tell(TrialChange(experiment=self.name, state="interrupted", trial=live))
            return
        self._queue.note_outcome(self.name, outcome)
        if outcome.is_valid and self.counts is not None:
            self.counts.finished[live.agent, live.condition] += 1
        boundary = outcome.failure.boundary if outcome.failure else None
        state: TrialState = "finished" if outcome.is_valid else "failed"
        self._tell(TrialChange(experiment=self.name, state=state, trial=live, boundary=boundary))


class _Watched:
    """Executes attempts and tells the live run of each."""

    def __init__(self, runner: RunsTrials, live: LiveRun) -> None:
        self._runner = runner
        self._live = live

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event."""
        live = self._live.began(trial, attempt)
        outcome: TrialOutcome | None = None
        try:
            outcome = await self._runner.run(trial, attempt, budget_actions)
            return outcome
        finally:
            self._live.ended(live, outcome)


def cell_of(trial: PlannedTrial) -> CellKey:
    """Return the cell that a trial belongs to."""
    return trial.agent.name, trial.condition
