"""Reads from events which trials of an experiment finished or failed, and which runs are unfinished."""

import time

import msgspec
import pyarrow.dataset as ds

from lhaw_record.recorder.events import (
    Envelope,
    LookTaken,
    ModelFailed,
    OracleBudgetSet,
    TaskRegistered,
    TrialFailed,
    TrialFinished,
    TrialsDiscarded,
    VariantGenerated,
)
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.trial import Boundary
from lhaw_record.recorder.reading.annotations import standing_discards
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types, from_each, in_recorded_order

Rank = tuple[int, int, str]
_INDEXED = (
    *(ModelFailed, TrialFinished, TrialFailed, OracleBudgetSet, TaskRegistered, VariantGenerated),
    *(TrialsDiscarded, LookTaken),
)


class FinishedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt that counts for a trial: the valid one with the highest number.

    ``action_count`` and ``cost_usd`` are None if unknown. Two hosts of a shared store may each have a valid attempt
    with the same number. Then the attempt that began last by the hosts' clocks counts, and the stream id breaks ties,
    so all hosts and views agree. The start time does not depend on the result, and an attempt that is published late
    began early, so it changes no number.
    """

    trial_id: str
    attempt: int
    action_count: int | None
    cost_usd: float | None
    is_success: bool = False


class FailedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The last failed attempt of a trial that has no valid attempt."""

    trial_id: str
    attempt: int
    failed_attempts: int
    boundary: Boundary | None
    error_kind: str
    message: str
    is_retry_owed: bool


class TrialIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an experiment so far.

    ``budgets`` are in the order in which they were set. ``spent_usd`` is the known cost of all ended attempts,
    including failed and discarded ones. A discarded attempt that is owed again counts neither as finished nor as
    failed; any other discarded attempt counts as before, so that it is not paid for twice. ``unpriced`` counts the
    attempts with unknown cost. ``registered`` holds the digests of tasks and variants over every field, so a variant
    whose ambiguity class has changed since is not among them. ``looks`` are in their order, each as it was first taken.
    ``set_aside`` has the finished trials that count nowhere, because each of their results was discarded.
    """

    finished: dict[str, FinishedTrial]
    failed: dict[str, FailedTrial]
    last_attempt: dict[str, int]
    budgets: tuple[OracleBudgetSet, ...]
    registered: frozenset[str]
    spent_usd: float
    unpriced: int = 0
    unknown_cost_calls: int = 0
    looks: tuple[LookTaken, ...] = ()
    set_aside: frozenset[str] = frozenset()


def load_trial_index(snapshot: Snapshot, experiment_id: str) -> TrialIndex:
    """Build the trial index of one experiment."""
    finished: dict[str, tuple[Rank, FinishedTrial]] = {}
    failures: dict[str, list[tuple[int, TrialFailed]]] = {}
    last_attempt: dict[str, int] = {}
    decisions: list[OracleBudgetSet | LookTaken] = []
    registered: set[str] = set()
    spent_usd = 0.0
    unpriced = unknown_cost_calls = 0
    envelopes = sorted(events_of_types(snapshot, _INDEXED, experiment_id), key=in_recorded_order)
    discarded = standing_discards(envelopes)
    counting: set[str] = set()
    for envelope in envelopes:
        event, trial_id, attempt = envelope.event, envelope.trial_id or "", envelope.attempt or 0
        if isinstance(event, TrialFinished | TrialFailed):
            last_attempt[trial_id] = max(attempt, last_attempt.get(trial_id, 0))
            spent_usd += event.cost_usd or 0.0
            unpriced += event.cost_usd is None
        if isinstance(event, ModelFailed):
            unknown_cost_calls += envelope.trial_id is not None and event.has_unknown_cost
        elif envelope.stream_id in discarded and discarded[envelope.stream_id].is_owed:
            continue
        elif isinstance(event, TrialFinished):
            counting.update([] if envelope.stream_id in discarded else [trial_id])
            if trial_id not in finished or rank(envelope) > finished[trial_id][0]:
                ended = FinishedTrial(
                    trial_id=trial_id,
                    attempt=attempt,
                    action_count=event.action_count,
                    cost_usd=event.cost_usd,
                    is_success=event.is_success,
                )
                finished[trial_id] = rank(envelope), ended
        elif isinstance(event, TrialFailed):
            failures.setdefault(trial_id, []).append((attempt, event))
        elif isinstance(event, OracleBudgetSet | LookTaken):
            decisions.append(event)
        elif isinstance(event, TaskRegistered | VariantGenerated):
            registered.add(event.task_digest if isinstance(event, TaskRegistered) else digest(event.variant))
    looks = {event.look: event for event in reversed(decisions) if isinstance(event, LookTaken)}
    return TrialIndex(
        finished={trial_id: ended for trial_id, (_, ended) in finished.items()},
        failed={trial_id: _last(trial_id, found) for trial_id, found in failures.items() if trial_id not in finished},
        last_attempt=last_attempt,
        budgets=tuple(event for event in decisions if isinstance(event, OracleBudgetSet)),
        registered=frozenset(registered),
        spent_usd=spent_usd,
        unpriced=unpriced,
        unknown_cost_calls=unknown_cost_calls,
        looks=tuple(looks[number] for number in sorted(looks)),
        set_aside=frozenset(finished.keys() - counting),
    )


def rank(envelope: Envelope) -> Rank:
    """Return the rank of a valid attempt; the highest-ranked attempt of a trial counts (see FinishedTrial)."""
    return envelope.attempt or 0, envelope.began_at_us, envelope.stream_id


def _last(trial_id: str, failures: list[tuple[int, TrialFailed]]) -> FailedTrial:
    attempt, event = max(failures, key=lambda pair: pair[0])
    return FailedTrial(
        trial_id=trial_id,
        attempt=attempt,
        failed_attempts=len(failures),
        boundary=event.boundary,
        error_kind=event.error_kind,
        message=event.message,
        is_retry_owed=event.is_retry_owed,
    )


RECENT_S = 3600.0


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished run. ``silent_s`` is the time since its writer's last event, by the clocks of both hosts."""

    stream_id: str
    writer_id: str
    silent_s: float


def open_runs(snapshot: Snapshot, experiment_id: str) -> list[OpenRun]:
    """Return the unfinished runs of an experiment that recently published an event.

    The result justifies a warning, but not an error: a dead host looks the same for a while, and a run that has not
    published yet is missing.
    """
    seen: dict[str, int] = {}
    begun: dict[str, str] = {}
    ended: set[str] = set()
    columns = ["type", "stream_id", "writer_id", "recorded_at_us"]
    here = ds.field("experiment_id") == experiment_id
    for rows in from_each(snapshot, lambda table: table.to_table(columns=columns, filter=here)):
        last = rows.group_by("writer_id").aggregate([("recorded_at_us", "max")]).to_pylist()
        for each in last:
            seen[each["writer_id"]] = max(each["recorded_at_us_max"], seen.get(each["writer_id"], 0))
        edges = rows.filter(ds.field("type").isin(["run_started", "run_finished"]))
        for row in edges.to_pylist():
            if row["type"] == "run_started":
                begun[row["stream_id"]] = row["writer_id"]
            else:
                ended.add(row["stream_id"])
    now_s = time.time()
    found = [
        OpenRun(stream_id=stream_id, writer_id=writer_id, silent_s=now_s - seen[writer_id] / 1e6)
        for stream_id, writer_id in sorted(begun.items())
        if stream_id not in ended
    ]
    return [each for each in found if each.silent_s <= RECENT_S]
