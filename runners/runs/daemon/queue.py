"""The queue: all submitted experiments with their states, computed from the events of a store.

The daemon has no other state. It applies the stored events to the queue when it starts, and each new event while it
runs. Therefore a daemon that was killed continues where it left off: an interrupted run is started again, and a trial
that was given up stays given up until somebody requeues it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

from lhaw_record.recorder.events import (
    CONTROL,
    AnyEvent,
    Envelope,
    ExperimentCancelled,
    ExperimentPaused,
    ExperimentRequeued,
    ExperimentResumed,
    ExperimentRetuned,
    ExperimentSubmitted,
    RunFinished,
    RunStarted,
    TrialFailed,
    TrialFinished,
)
from lhaw_record.recorder.events.run import EXPERIMENT
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order
from lhaw_record.runners.agents.trial_record import TrialOutcome
from lhaw_record.runners.base.errors import EndpointDown, LeaseReturned
from lhaw_record.runners.runs.scheduler import PriorFailures

FOLDED = (*CONTROL, RunStarted, RunFinished, TrialFinished, TrialFailed)
"""The event types from which the queue is computed."""

State = Literal["waiting", "paused", "cancelled", "finished", "failed", "cost_limit"]
_STATE_OF_OUTCOME: dict[str | None, State] = {
    "completed": "finished",
    "failed": "failed",
    "cost_limit": "cost_limit",
    "cost_unknown": "cost_limit",
}


class QueueEntry(msgspec.Struct, kw_only=True):
    """One submitted experiment and its state.

    ``outcome`` is the outcome of the last run since the experiment was submitted or requeued. None and ``interrupted``
    mean that the experiment must run again. ``attempts`` counts the failed attempts of each trial since the submission
    or the trial's requeue. ``hopeless`` are the failed trials for which another attempt would not help. ``owed`` are
    the requeued trials that have not ended yet.
    """

    submitted: ExperimentSubmitted
    submitted_at_us: int
    is_paused: bool = False
    is_cancelled: bool = False
    concurrency: int | None = None
    outcome: str | None = None
    attempts: Counter[str] = msgspec.field(default_factory=Counter)
    hopeless: set[str] = msgspec.field(default_factory=set)
    owed: set[str] = msgspec.field(default_factory=set)

    @property
    def name(self) -> str:
        return self.submitted.experiment

    @property
    def state(self) -> State:
        """The state of the experiment according to the events. Only the daemon knows whether a run is live."""
        if self.outcome == "completed":
            return "finished"
        if self.is_cancelled:
            return "cancelled"
        if self.is_paused:
            return "paused"
        return _STATE_OF_OUTCOME.get(self.outcome, "waiting")

    def prior_failures(self, max_attempts: int) -> PriorFailures:
        """Return the failures of earlier runs, which count toward the limit on attempts in the next run."""
        worn_out = {trial_id for trial_id, count in self.attempts.items() if count >= max_attempts}
        return PriorFailures(attempts=dict(self.attempts), given_up=frozenset(worn_out | self.hopeless))


class AttemptCosts(msgspec.Struct, kw_only=True):
    """The cost of all attempts of an experiment, and the number of failed attempts by boundary.

    ``spent_usd`` is the sum of the known costs. ``unpriced`` is the number of attempts whose cost is unknown.
    """

    spent_usd: float = 0.0
    unpriced: int = 0
    failures: Counter[str] = msgspec.field(default_factory=Counter)

    def pay(self, cost_usd: float | None) -> None:
        self.spent_usd += cost_usd or 0.0
        self.unpriced += cost_usd is None

    def add(self, failed: TrialFailed) -> None:
        """Add a failed attempt. For an interrupted attempt, only the cost is added, because it did not fail."""
        self.pay(failed.cost_usd)
        if not _is_interruption(failed):
            self.failures[failed.boundary or "unknown"] += 1


class Queue:
    """All submitted experiments, in the order of their first submission."""

    def __init__(self) -> None:
        self.entries: dict[str, QueueEntry] = {}
        self.tallies: dict[str, AttemptCosts] = {}

    def apply(self, experiment: str, event: AnyEvent, *, trial_id: str = "", at_us: int = 0) -> None:
        """Apply one event. Events that do not concern the queue change nothing."""
        if isinstance(event, ExperimentSubmitted):
            self.entries[experiment] = QueueEntry(submitted=event, submitted_at_us=at_us)
            return
        if isinstance(event, TrialFinished):
            self.tally(experiment).pay(event.cost_usd)
        elif isinstance(event, TrialFailed):
            self.tally(experiment).add(event)
        entry = self.entries.get(experiment)
        if entry is not None:
            _apply(entry, event, trial_id)

    def note_outcome(self, experiment: str, outcome: TrialOutcome) -> None:
        """Apply the outcome of an attempt. This has the same effect as applying its closing event."""
        trial_id = outcome.trial.trial_id
        if outcome.failure is not None:
            self.apply(
                experiment, msgspec.structs.replace(outcome.failure, cost_usd=outcome.cost_usd), trial_id=trial_id
            )
            return
        self.tally(experiment).pay(outcome.cost_usd)
        entry = self.entries.get(experiment)
        if entry is not None:
            _succeed(entry, trial_id)

    def tally(self, experiment: str) -> AttemptCosts:
        return self.tallies.setdefault(experiment, AttemptCosts())


def fold(envelopes: Iterable[Envelope]) -> Queue:
    """Rebuild the daemon's queue from recorded events. The events may come in any order.

    Events from commands that run no trials, such as judge and grade, are skipped.
    """
    queue = Queue()
    passed_over: set[str] = set()
    for envelope in sorted(envelopes, key=in_recorded_order):
        event = envelope.event
        if isinstance(event, RunStarted) and event.run_kind != EXPERIMENT:
            passed_over.add(envelope.stream_id)
        if envelope.stream_id not in passed_over or isinstance(event, CONTROL):
            experiment = event.experiment if isinstance(event, CONTROL) else envelope.experiment_id
            queue.apply(experiment, event, trial_id=envelope.trial_id or "", at_us=envelope.recorded_at_us)
    return queue


def stored_queue(snapshot: Snapshot) -> Queue:
    return fold(events_of_types(snapshot, FOLDED))


def _apply(entry: QueueEntry, event: AnyEvent, trial_id: str) -> None:
    if isinstance(event, CONTROL):
        _obey(entry, event)
    elif isinstance(event, RunFinished):
        entry.outcome = (
            None if event.outcome == "failed" and entry.owed else event.outcome
        )  # requeued just before the run ended
        entry.owed.clear()
    elif isinstance(event, TrialFinished):
        _succeed(entry, trial_id)
    elif isinstance(event, TrialFailed) and not _is_interruption(event):
        entry.owed.discard(trial_id)
        entry.attempts[trial_id] += 1
        if not event.is_retry_owed:
            entry.hopeless.add(trial_id)


def _obey(entry: QueueEntry, event: AnyEvent) -> None:
    match event:
        case ExperimentPaused():
            entry.is_paused = True
        case ExperimentResumed():
            entry.is_paused = False
        case ExperimentCancelled():
            entry.is_cancelled = True
        case ExperimentRetuned():
            entry.concurrency = event.concurrency
        case ExperimentRequeued():
            entry.outcome = None
            entry.owed.update(event.trial_ids)
            for trial_id in event.trial_ids:
                _forget(entry, trial_id)


def _succeed(entry: QueueEntry, trial_id: str) -> None:
    entry.owed.discard(trial_id)
    _forget(entry, trial_id)


def _forget(entry: QueueEntry, trial_id: str) -> None:
    entry.attempts.pop(trial_id, None)
    entry.hopeless.discard(trial_id)


def _is_interruption(event: TrialFailed) -> bool:
    """Return whether an attempt was cut short by a stop, a crash, an endpoint that was down or a returned lease."""
    is_stopped = event.boundary == "recorder" and event.error_kind == "interrupted"
    return is_stopped or event.error_kind in (EndpointDown.KIND, *LeaseReturned.KINDS)
