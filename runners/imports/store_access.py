"""Reads what an import needs from its store, and writes the import in one commit, so a crash leaves all or nothing."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

import anyio
import msgspec
import pyarrow as pa

from lhaw_record.recorder.errors import DamagedStore, StoreError
from lhaw_record.recorder.events import OracleBudgetSet, TaskRegistered, VariantGenerated
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.reading.reader import Snapshot, stream_ids
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.seal import seal
from lhaw_record.recorder.storage.journal import JournalFile
from lhaw_record.recorder.storage.journal_format import MAX_BODY_BYTES
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.recorder import Clock
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.recorder.writing.stream import Draft
from lhaw_record.runners.imports.foreign_trial import KnownRecords
from lhaw_record.runners.imports.streams import ImportedStream

_TYPES = (TaskRegistered, VariantGenerated, OracleBudgetSet)
_NO_TIME_PASSES = Clock(monotonic_ns=lambda: 0)
"""A clock for an import, whose only times are those in the imported file."""


def load_records(snapshot: Snapshot) -> KnownRecords:
    """Return the store's variants, tasks and budgets that an import can use."""
    events = [envelope.event for envelope in sorted(events_of_types(snapshot, _TYPES), key=in_recorded_order)]
    return KnownRecords(
        variants={each.variant.variant_id: each.variant for each in events if isinstance(each, VariantGenerated)},
        tasks={
            (each.task.benchmark, each.task.task_id): each.task for each in events if isinstance(each, TaskRegistered)
        },
        budgets=tuple(each for each in events if isinstance(each, OracleBudgetSet)),
        registered=frozenset(
            digest(each.task if isinstance(each, TaskRegistered) else each.variant)
            for each in events
            if isinstance(each, TaskRegistered | VariantGenerated)
        ),
    )


def to_write(streams: Sequence[ImportedStream], present: Iterable[str]) -> list[ImportedStream]:
    """Return the trials that a store does not have yet.

    If the store has a trial without its result, the new one is a second attempt, and the first stays as missing data.
    """
    contents: dict[str, set[str]] = {}
    for stream_id in present:
        trial_id, _, rest = stream_id.partition("-")
        contents.setdefault(trial_id, set()).add(rest.partition("-")[2].partition("-")[0])
    missing = []
    for stream in streams:
        there = contents.get(stream.trial_id or "")
        if there is None:
            missing.append(stream)
        elif there == {stream.content_before} and stream.content != stream.content_before:
            missing.append(msgspec.structs.replace(stream, attempt=2))
        elif stream.content not in there:
            raise StoreError(
                f"the store already has trial {stream.trial_id}, with different content; nothing was added. "
                "Compare the two files; another repetition needs --trial-index, another agent --agent"
            )
    return missing


def write(store: Store, experiment_id: str, own: ImportedStream, trials: Sequence[ImportedStream]) -> int:
    """Write an import's own stream and its trials' streams durably. Return the number of events."""
    with store.hold_experiment(experiment_id):
        recover(store, experiment_id=experiment_id)
        present = stream_ids(store.root)
        if own.stream_id in present or len(to_write(trials, present)) < len(trials):
            raise StoreError(
                f"another import has just added some of these trials to {store.name}; run the same command again"
            )
        return anyio.run(_record, store, experiment_id, (*trials, own))


async def _record(store: Store, experiment_id: str, streams: Sequence[ImportedStream]) -> int:
    redactor = Redactor(secrets_of(os.environ))
    async with StoreRecorder(
        store, experiment_id, redactor=redactor, clock=_NO_TIME_PASSES, start_sealing=_SealedHere
    ) as recorder:
        drafts = [draft for stream in streams for draft in _drafts(recorder, stream)]
        size = sum(len(draft.payload) for draft in drafts)
        if size > MAX_BODY_BYTES:
            raise StoreError(f"the import has {size} bytes, more than one commit can hold; import the files one by one")
        await recorder.commit(drafts)
    return len(drafts)


class _SealedHere:
    """Seals the journal in this process, because an import has no other work to do in the meantime."""

    def __init__(self, store: Store, journal: JournalFile) -> None:
        self._is_sealed = False
        with suppress(OSError, DamagedStore, pa.ArrowException):  # the journal is whole, and wait() reports it
            seal(store, journal.path)
            self._is_sealed = True

    def wait(self) -> int:
        """Return 0 if the segment was written, or 1 if the journal remains."""
        return 0 if self._is_sealed else 1


def _drafts(recorder: StoreRecorder, imported: ImportedStream) -> list[Draft]:
    suffix = f"-{recorder.writer_id}" if recorder.store.address and imported.trial_id else ""
    attempt = imported.attempt if imported.trial_id else None
    stream = recorder.stream(imported.stream_id + suffix, trial_id=imported.trial_id, attempt=attempt)
    return stream.drafts(imported.events)
