"""The queue: what the daemon was asked and what came of it, as a fold over the events of a store.

Nothing else is state. The same fold takes the events of a store when the daemon begins, and each new one while it
runs. So a daemon that was killed goes on where it was: an experiment whose run was interrupted is owed another, and a
trial that was given up stays given up until somebody asks for it again.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

from recorder.events import (
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
from recorder.reader import Snapshot
from recorder.typed_rows import events_of_types, in_recorded_order
from runners.scheduler import Before
from runners.trial import TrialOutcome

FOLDED = (*CONTROL, RunStarted, RunFinished, TrialFinished, TrialFailed)
"""The events that the queue is made of."""

State = Literal["waiting", "paused", "cancelled", "finished", "failed", "cost_limit"]
_STATE_OF_OUTCOME: dict[str | None, State] = {
    "completed": "finished",
    "failed": "failed",
    "cost_limit": "cost_limit",
    "cost_unknown": "cost_limit",
}


class Entry(msgspec.Struct, kw_only=True):
    """One experiment that was submitted, and how it stands.

    ``outcome`` is that of the last run since it was last asked for; None and ``interrupted`` mean that a run is owed.
    ``attempts`` counts the failed attempts of trials since then, ``hopeless`` are trials that another attempt cannot
    help, and ``owed`` those that were asked for again and have not ended since.
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
        """The experiment's name."""
        return self.submitted.experiment

    @property
    def state(self) -> State:
        """How it stands as far as events tell; whether a run of it is live, only the daemon knows."""
        if self.outcome == "completed":
            return "finished"
        if self.is_cancelled:
            return "cancelled"
        if self.is_paused:
            return "paused"
        return _STATE_OF_OUTCOME.get(self.outcome, "waiting")

    def before(self, max_attempts: int) -> Before:
        """Return what its next run has to know of the earlier ones."""
        worn_out = {trial_id for trial_id, count in self.attempts.items() if count >= max_attempts}
        return Before(attempts=dict(self.attempts), given_up=frozenset(worn_out | self.hopeless))


class Tally(msgspec.Struct, kw_only=True):
    """What the attempts of an experiment cost and at which boundaries they failed, whoever ran them."""

    spent_usd: float = 0.0
    unpriced: int = 0
    failures: Counter[str] = msgspec.field(default_factory=Counter)

    def pay(self, cost_usd: float | None) -> None:
        """Count what an attempt cost, or that nobody knows it."""
        self.spent_usd += cost_usd or 0.0
        self.unpriced += cost_usd is None

    def add(self, failed: TrialFailed) -> None:
        """Count a failed attempt; what somebody stopped did not fail."""
        self.pay(failed.cost_usd)
        if not _is_interruption(failed):
            self.failures[failed.boundary or "unknown"] += 1


class Queue:
    """Every submitted experiment, in the order of the first submission of its name."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.tallies: dict[str, Tally] = {}

    def apply(self, experiment: str, event: AnyEvent, *, trial_id: str = "", at_us: int = 0) -> None:
        """Take one event into account; events that are none of the queue's change nothing.

        Args:
            experiment: What it is about.
            event: The event.
            trial_id: The trial that a trial's event is about.
            at_us: When it was recorded, UTC microseconds since the epoch.
        """
        if isinstance(event, ExperimentSubmitted):
            self.entries[experiment] = Entry(submitted=event, submitted_at_us=at_us)
            return
        if isinstance(event, TrialFinished):
            self.tally(experiment).pay(event.cost_usd)
        elif isinstance(event, TrialFailed):
            self.tally(experiment).add(event)
        entry = self.entries.get(experiment)
        if entry is not None:
            _apply(entry, event, trial_id)

    def note_outcome(self, experiment: str, outcome: TrialOutcome) -> None:
        """Take an attempt's end into account, as its closing event would be."""
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

    def tally(self, experiment: str) -> Tally:
        """Return what the attempts of an experiment come to."""
        return self.tallies.setdefault(experiment, Tally())


def fold(envelopes: Iterable[Envelope]) -> Queue:
    """Return the queue that some events, in any order, leave.

    Runs of commands that plan no trials, as judge and grade, are passed over.
    """
    queue = Queue()
    passed_over: set[str] = set()
    for envelope in sorted(envelopes, key=in_recorded_order):
        event = envelope.event
        if isinstance(event, RunStarted) and "command" in msgspec.json.decode(event.config_json):
            passed_over.add(envelope.stream_id)
        if envelope.stream_id not in passed_over or isinstance(event, CONTROL):
            experiment = event.experiment if isinstance(event, CONTROL) else envelope.experiment_id
            queue.apply(experiment, event, trial_id=envelope.trial_id or "", at_us=envelope.recorded_at_us)
    return queue


def stored_queue(snapshot: Snapshot) -> Queue:
    """Return the queue of a store."""
    return fold(events_of_types(snapshot, FOLDED))


def _apply(entry: Entry, event: AnyEvent, trial_id: str) -> None:
    if isinstance(event, CONTROL):
        _obey(entry, event)
    elif isinstance(event, RunFinished):
        entry.outcome = (
            None if event.outcome == "failed" and entry.owed else event.outcome
        )  # asked for in its last moment
        entry.owed.clear()
    elif isinstance(event, TrialFinished):
        _succeed(entry, trial_id)
    elif isinstance(event, TrialFailed) and not _is_interruption(event):
        entry.owed.discard(trial_id)
        entry.attempts[trial_id] += 1
        if not event.is_retry_owed:
            entry.hopeless.add(trial_id)


def _obey(entry: Entry, event: AnyEvent) -> None:
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


def _succeed(entry: Entry, trial_id: str) -> None:
    entry.owed.discard(trial_id)
    _forget(entry, trial_id)


def _forget(entry: Entry, trial_id: str) -> None:
    entry.attempts.pop(trial_id, None)
    entry.hopeless.discard(trial_id)


def _is_interruption(event: TrialFailed) -> bool:
    """Whether nothing failed: somebody stopped the run, or its process died."""
    return event.boundary == "recorder" and event.error_kind == "interrupted"
