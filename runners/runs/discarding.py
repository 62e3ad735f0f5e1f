"""Discards attempts of finished trials, takes them back in, or notes something about them, by an appended event."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Literal

import anyio.to_thread
import msgspec

from lhaw_record.recorder.events import (
    NOTES_EXPERIMENT,
    Envelope,
    TrialFailed,
    TrialFinished,
    TrialsDiscarded,
    TrialsNoted,
    TrialStarted,
)
from lhaw_record.recorder.reading.annotations import standing_discards
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.wording import did_you_mean
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.runs.run_record import WorkCounts, held, recorded_run

_DIGITS = 6
_LONGEST_AUTHOR = 80
_LONGEST_NOTE = 4_000


class StoredAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that ended, and the decision that sets it aside, if there is one."""

    stream_id: str
    trial_id: str
    attempt: int
    experiment_id: str
    state: Literal["finished", "failed"]
    started: TrialStarted
    discarded: TrialsDiscarded | None

    def names(self, key: str) -> tuple[str, ...]:
        """Return the values of a filter that match the attempt. An agent also matches by NAME#DIGEST, as in tables."""
        start = self.started
        if key == "agent":
            return start.agent, f"{start.agent}#{start.agent_digest[:_DIGITS]}"
        if key == "trial":
            return (self.stream_id,)
        named = {
            "condition": start.condition,
            "benchmark": start.benchmark,
            "task": start.task_id,
            "experiment": self.experiment_id,
            "run": start.run_id,
        }
        return (named[key],)

    def is_called(self, key: str, value: str) -> bool:
        """Return whether a filter matches the attempt. A trial matches by the beginning of its id."""
        return self.stream_id.startswith(value) if key == "trial" else value in self.names(key)

    def is_changed_by(self, decision: TrialsDiscarded) -> bool:
        """Return whether a decision differs from the one that is in force."""
        if self.discarded is None:
            return not decision.is_undone
        standing = self.discarded.reason, self.discarded.is_owed
        return decision.is_undone or standing != (decision.reason, decision.is_owed)


def read_attempts(snapshot: Snapshot) -> list[StoredAttempt]:
    """Return every attempt of a store that ended, in the order of their ends."""
    started: dict[str, TrialStarted] = {}
    ended: list[Envelope] = []
    decisions: list[Envelope] = []
    for envelope in events_of_types(snapshot, (TrialStarted, TrialFinished, TrialFailed, TrialsDiscarded)):
        if isinstance(envelope.event, TrialStarted):
            started[envelope.stream_id] = envelope.event
        else:
            (decisions if isinstance(envelope.event, TrialsDiscarded) else ended).append(envelope)
    standing = standing_discards(decisions)
    return [
        StoredAttempt(
            stream_id=each.stream_id,
            trial_id=each.trial_id,
            attempt=each.attempt,
            experiment_id=each.experiment_id,
            state="finished" if isinstance(each.event, TrialFinished) else "failed",
            started=started[each.stream_id],
            discarded=standing.get(each.stream_id),
        )
        for each in sorted(ended, key=in_recorded_order)
        if each.stream_id in started and each.trial_id is not None and each.attempt is not None
    ]


def chosen(attempts: Sequence[StoredAttempt], wanted: Mapping[str, Sequence[str]]) -> list[StoredAttempt]:
    for key, values in wanted.items():
        for value in values:
            if any(each.is_called(key, value) for each in attempts):
                continue
            there = sorted({name for each in attempts for name in each.names(key)})
            known = ", ".join(there[:20]) + (", …" if len(there) > 20 else "")
            hint = did_you_mean(value, there)
            raise ExperimentError(f"no ended trial has the {key} {value!r}{hint}; there are: {known or 'none'}")
    return [
        each
        for each in attempts
        if all(not values or any(each.is_called(key, value) for value in values) for key, values in wanted.items())
    ]


def without_repeats(meant: Sequence[StoredAttempt], attempts: Sequence[StoredAttempt]) -> list[StoredAttempt]:
    """Leave out attempts made after another attempt of the same trial was discarded to be run again."""
    owed: dict[str, int] = {}
    for each in attempts:
        if each.discarded is not None and each.discarded.is_owed:
            owed[each.trial_id] = min(each.attempt, owed.get(each.trial_id, each.attempt))
    return [
        each for each in meant if each.discarded is not None or each.attempt <= owed.get(each.trial_id, each.attempt)
    ]


def grouped(attempts: Sequence[StoredAttempt]) -> list[dict[str, object]]:
    """Count trials and attempts by run, agent version, condition and reason."""
    rows: Counter[tuple[object, ...]] = Counter()
    trials: dict[tuple[object, ...], set[str]] = {}
    for each in attempts:
        start, decision = each.started, each.discarded
        version = (each.experiment_id, start.run_id, start.benchmark, start.agent, start.agent_digest[:_DIGITS])
        key = (*version, start.condition, decision and decision.reason, decision and decision.is_owed)
        rows[key] += 1
        trials.setdefault(key, set()).add(each.trial_id)
    columns = ("experiment", "run", "benchmark", "agent", "digest", "condition", "reason", "is_owed")
    return [
        dict(zip(columns, key, strict=True)) | {"trials": len(trials[key]), "attempts": n} for key, n in rows.items()
    ]


async def record_decision(store: Store, attempts: Sequence[StoredAttempt], decision: TrialsDiscarded) -> None:
    """Record a decision about attempts, one event in each of their experiments."""
    by_experiment: dict[str, list[str]] = {}
    for each in attempts:
        by_experiment.setdefault(each.experiment_id, []).append(each.stream_id)
    with held(store, tuple(by_experiment)):
        for experiment_id, stream_ids in by_experiment.items():
            counts = WorkCounts(len(stream_ids))
            config = {"reason": decision.reason, "is_owed": decision.is_owed, "is_undone": decision.is_undone}
            async with recorded_run(store, experiment_id, "discard", config, counts) as stream:
                await stream.append(msgspec.structs.replace(decision, stream_ids=tuple(stream_ids)))
                counts.done, counts.outcome = len(stream_ids), "completed"


async def record_note(store: Store, note: TrialsNoted) -> None:
    """Record a note, as one line: runs of blanks and line breaks become one blank."""
    note = msgspec.structs.replace(note, author=" ".join(note.author.split()), note=" ".join(note.note.split()))
    if not 0 < len(note.author) <= _LONGEST_AUTHOR:
        raise ExperimentError(f"a note needs the name of who wrote it, of at most {_LONGEST_AUTHOR} characters")
    if not (note.note or note.is_undone):
        raise ExperimentError("the note is empty; write what was seen for readers of the store")
    if len(note.note) > _LONGEST_NOTE:
        raise ExperimentError(f"the note has {len(note.note)} characters; write at most {_LONGEST_NOTE}")
    with ExitStack() as stack:
        await anyio.to_thread.run_sync(lambda: stack.enter_context(held(store, (NOTES_EXPERIMENT,))))
        counts = WorkCounts(len(note.stream_ids))
        async with recorded_run(store, NOTES_EXPERIMENT, "note", {"author": note.author}, counts) as stream:
            await stream.append(note)
            counts.done, counts.outcome = len(note.stream_ids), "completed"
