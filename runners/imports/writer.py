"""Writing an import: all its streams in one commit, so that a death leaves the whole import or nothing of it."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

import anyio
import msgspec
import pyarrow as pa

from recorder.digest import CLOSING, covered, with_digest
from recorder.errors import DamagedStore, StoreError
from recorder.events import AnyEvent, Envelope
from recorder.frames import MAX_BODY_BYTES, record
from recorder.journal import JournalFile
from recorder.reader import stream_ids
from recorder.recorder import Recorder
from recorder.recovery import recover
from recorder.redaction import Redactor, secrets_of
from recorder.seal import seal
from recorder.store import Store
from runners.imports.assembly import ImportedStream


def to_write(streams: Sequence[ImportedStream], present: Iterable[str]) -> list[ImportedStream]:
    """Return the trials that a store does not have.

    Args:
        streams: The trials of an import.
        present: The ids of all streams of the store.

    Raises:
        StoreError: It has one of them with another content.
    """
    contents: dict[str, set[str]] = {}
    for stream_id in present:
        trial_id, _, rest = stream_id.partition("-1-")
        contents.setdefault(trial_id, set()).add(rest.partition("-")[0])
    missing = []
    for stream in streams:
        trial_id, _, content = stream.stream_id.partition("-1-")
        if trial_id not in contents:
            missing.append(stream)
        elif content not in contents[trial_id]:
            raise StoreError(
                f"the store has trial {trial_id} already, with another content than this import; nothing was added. "
                "Compare the two files; another repetition needs --trial-index, another agent --agent"
            )
    return missing


def write(store: Store, experiment_id: str, own: ImportedStream, trials: Sequence[ImportedStream]) -> int:
    """Write the stream of an import and those of its trials; returns the number of events when they are durable.

    Raises:
        StoreError: A run holds the experiment, another import was faster, or it is more than one commit can hold.
        RecordingFailed: The disk refuses.
    """
    with store.hold_experiment(experiment_id):
        recover(store, experiment_id=experiment_id)
        present = stream_ids(store.root)
        if own.stream_id in present or len(to_write(trials, present)) < len(trials):
            raise StoreError(f"{store.name} got some of these trials in this moment; run the same command again")
        return anyio.run(_record, store, experiment_id, (*trials, own))


async def _record(store: Store, experiment_id: str, streams: Sequence[ImportedStream]) -> int:
    redactor = Redactor(secrets_of(os.environ))
    async with Recorder(store, experiment_id, redactor=redactor, start_sealing=_SealedHere) as recorder:
        records = [
            record(msgspec.msgpack.encode(envelope))
            for stream in streams
            for envelope in _envelopes(recorder, stream, redactor)
        ]
        size = sum(map(len, records))
        if size > MAX_BODY_BYTES:
            raise StoreError(f"the import has {size} bytes, more than one commit can hold; import the files one by one")
        await recorder.submit(records)
    return len(records)


class _SealedHere:
    """Seals the journal in this process: an import has nothing else to do meanwhile."""

    def __init__(self, store: Store, journal: JournalFile) -> None:
        self._is_sealed = False
        with suppress(OSError, DamagedStore, pa.ArrowException):  # the journal is whole, and named at the end
            seal(store, journal.path)
            self._is_sealed = True

    def wait(self) -> int:
        """Return 0 when the segment is there, 1 when the journal stays."""
        return 0 if self._is_sealed else 1


def _envelopes(recorder: Recorder, stream: ImportedStream, redactor: Redactor) -> list[Envelope]:
    """The records of a stream, with its digest in the closing one."""
    suffix = f"-{recorder.writer_id}" if recorder.store.address and stream.trial_id else ""
    chain = hashlib.sha256()
    envelopes = []
    for sequence, event in enumerate(stream.events):
        envelope = Envelope(
            stream_id=stream.stream_id + suffix,
            sequence=sequence,
            recorded_at_us=recorder.clock.wall_us(),
            elapsed_ns=0,
            writer_id=recorder.writer_id,
            experiment_id=recorder.experiment_id,
            trial_id=stream.trial_id,
            attempt=1 if stream.trial_id else None,
            event=_without_secrets(event, redactor),
        )
        chain.update(covered(envelope))
        is_closing = isinstance(event, CLOSING)
        envelopes.append(with_digest(envelope, chain.hexdigest()) if is_closing else envelope)
    return envelopes


def _without_secrets(event: AnyEvent, redactor: Redactor) -> AnyEvent:
    return redactor.clean(event) if redactor.hits(msgspec.msgpack.encode(event)) else event
