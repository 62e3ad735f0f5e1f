"""Live runs: their schedulers, running trials and trial counts, and their shared limit on running trials."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

import anyio

from lhaw_record.recorder.reading.trial_index import FinishedTrial
from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.agents.trial_record import TrialOutcome
from lhaw_record.runners.base.errors import ungrouped
from lhaw_record.runners.runs.daemon.messages import AttemptState, CellCounts, LiveTrial, TrialChange
from lhaw_record.runners.runs.daemon.queue import Queue
from lhaw_record.runners.runs.scheduler import AttemptRunner, Scheduler

CellKey = tuple[str, str]


class TrialCounts:
    """The numbers of planned, finished and successful trials of a run, by agent and condition."""

    def __init__(self, planned: tuple[PlannedTrial, ...], finished: Mapping[str, FinishedTrial]) -> None:
        self.planned = Counter(cell_of(trial) for trial in planned)
        ended = [(cell_of(trial), finished[trial.trial_id]) for trial in planned if trial.trial_id in finished]
        self.finished = Counter(cell for cell, _ in ended)
        self.successes = Counter(cell for cell, each in ended if each.is_success)

    def cells(self, running: Counter[CellKey]) -> tuple[CellCounts, ...]:
        """Return the counts of each cell (agent and condition) in the order of the plan, with the running trials."""
        return tuple(
            CellCounts(
                agent=agent,
                condition=condition,
                planned=planned,
                finished=self.finished[agent, condition],
                successes=self.successes[agent, condition],
                running=running[agent, condition],
            )
            for (agent, condition), planned in self.planned.items()
        )


class Slots:
    """A fairly shared limit on the number of trials that all live runs together may run at a time.

    A scheduler gets a slot only if no other scheduler that wants a slot has fewer running trials. This class does not
    count running trials, but asks the schedulers each time.

    Args:
        limit: The largest number of trials at a time over all runs.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._schedulers: list[Scheduler] = []

    @property
    def taken(self) -> int:
        return sum(len(scheduler.running) for scheduler in self._schedulers)

    def join(self, scheduler: Scheduler) -> None:
        self._schedulers.append(scheduler)

    def leave(self, scheduler: Scheduler) -> None:
        """Remove the scheduler of a run that has ended, and let the others take its slots."""
        self._schedulers.remove(scheduler)
        self.changed()

    def may_take(self, scheduler: Scheduler) -> bool:
        """Return whether a scheduler may start one more trial now."""
        running = len(scheduler.running)
        others = (each for each in self._schedulers if each is not scheduler and len(each.running) < running)
        return self.taken < self.limit and not any(each.wants_more for each in others)

    def changed(self) -> None:
        """Wake every scheduler that wants a slot and may take one. Call this whenever a trial starts or ends."""
        for scheduler in self._schedulers:
            if scheduler.wants_more and self.may_take(scheduler):
                scheduler.wake()


class LiveRun:
    """A run of an experiment, from its preparation to its last event.

    Args:
        name: The name of the experiment.
        queue: The queue in which the outcome of each attempt is recorded.
        slots: The limit on running trials that this run shares with other runs.
        concurrency: The largest number of trials at a time. None uses the number in the experiment file.
        tell: A function that is called when an attempt begins or ends.
    """

    def __init__(
        self, name: str, queue: Queue, slots: Slots, concurrency: int | None, tell: Callable[[TrialChange], None]
    ) -> None:
        self.name = name
        self.scheduler: Scheduler | None = None
        self.counts: TrialCounts | None = None
        self.running: dict[str, LiveTrial] = {}
        self.is_cancelled = False
        self.is_stopping = False
        self._runner: AttemptRunner
        self._queue = queue
        self._slots = slots
        self._concurrency = concurrency
        self._tell = tell
        self._scope = anyio.CancelScope()

    async def drive(self, scheduler: Scheduler) -> None:
        if self._concurrency is not None:
            scheduler.retune(self._concurrency)
        self.counts = TrialCounts(scheduler.planned, scheduler.finished)
        self.scheduler = scheduler
        if self.is_stopping:
            scheduler.stop()
        self._slots.join(scheduler)
        try:
            with ungrouped(), self._scope:
                await scheduler.run()
        finally:
            self._slots.leave(scheduler)

    def stop(self) -> None:
        self.is_stopping = True
        if self.scheduler is not None:
            self.scheduler.stop()
            self._slots.changed()

    def retune(self, concurrency: int) -> None:
        self._concurrency = concurrency
        if self.scheduler is not None:
            self.scheduler.retune(concurrency)
            self._slots.changed()

    def cancel(self) -> None:
        """Start no further trials, and stop the running trials now."""
        self.is_cancelled = True
        self.stop()
        self._scope.cancel()

    def watched(self, runner: AttemptRunner) -> AttemptRunner:
        """Return this run as the runner of attempts, which notes when each of them begins and ends."""
        self._runner = runner
        return self

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        live = self._began(trial, attempt)
        outcome: TrialOutcome | None = None
        try:
            outcome = await self._runner.run(trial, attempt, budget_actions)
            return outcome
        finally:
            self._ended(live, outcome)

    def _began(self, trial: PlannedTrial, attempt: int) -> LiveTrial:
        """Record that an attempt begins, and return the running trial."""
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

    def _ended(self, live: LiveTrial, outcome: TrialOutcome | None) -> None:
        """Record how an attempt ended. ``outcome`` is None if the attempt was interrupted."""
        self.running.pop(live.trial_id, None)
        if outcome is None:
            self._tell(TrialChange(experiment=self.name, state="interrupted", trial=live))
            return
        self._queue.note_outcome(self.name, outcome)
        if outcome.is_valid and self.counts is not None:
            self.counts.finished[live.agent, live.condition] += 1
            self.counts.successes[live.agent, live.condition] += outcome.is_success
        boundary = outcome.failure.boundary if outcome.failure else None
        state: AttemptState = "finished" if outcome.is_valid else "failed"
        self._tell(TrialChange(experiment=self.name, state=state, trial=live, boundary=boundary))


def cell_of(trial: PlannedTrial) -> CellKey:
    return trial.agent.name, trial.condition
